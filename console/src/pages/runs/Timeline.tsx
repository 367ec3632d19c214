// Rows over time. Each is read as a line of words too, so the bars are only for the eye.
import { Link } from '@tanstack/react-router'
import { Footprints, MessageCircleQuestion, Sparkles, SquareChartGantt, Wrench } from 'lucide-react'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { ApprovalBadge, CallBadge, RunBadge } from '../../ui/domain'
import { placeOf, type RowKind, type TimelineRow, type Timeline as Told } from './rows'
import { hasWords, Said } from './Said'
import css from './Timeline.module.css'

const ICONS: Record<RowKind, typeof Wrench> = {
  run: SquareChartGantt,
  step: Footprints,
  call: Wrench,
  unread: Wrench,
  question: MessageCircleQuestion,
  model: Sparkles,
}
const TICKS = [0, 0.25, 0.5, 0.75, 1]
const DEPTH_MAX = 6

export function Timeline({
  timeline,
  isLive,
  onOpen,
}: {
  timeline: Told
  isLive: boolean
  /** For calls and runs. */
  onOpen: (row: TimelineRow) => void
}) {
  const whole = timeline.until - timeline.from
  return (
    <div className={css.timeline} data-live={isLive || undefined}>
      <div className={css.scale} aria-hidden="true">
        {TICKS.map((share) => (
          <span key={share}>{share === 0 ? '0' : duration(whole * share)}</span>
        ))}
      </div>
      <ol aria-label="Timeline">
        {timeline.rows.map((row) => (
          <Row key={row.id} row={row} timeline={timeline} onOpen={onOpen} />
        ))}
      </ol>
    </div>
  )
}

function Row({ row, timeline, onOpen }: { row: TimelineRow; timeline: Told; onOpen: (row: TimelineRow) => void }) {
  const Icon = ICONS[row.kind]
  const lasted = (row.until ?? timeline.until) - row.from
  const words = row.kind === 'call' || row.kind === 'unread' ? <code>{revealed(row.title)}</code> : revealed(row.title)
  return (
    <li className={css.row} data-kind={row.kind}>
      <div className={css.name} style={{ paddingLeft: Math.min(row.depth, DEPTH_MAX) * 18 }}>
        <Icon aria-hidden="true" />
        {row.kind === 'call' || row.kind === 'run' ? (
          <a
            href={row.kind === 'call' ? `/calls/${row.id}` : `/runs/${row.id}`}
            onClick={(event) => {
              if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
              event.preventDefault()
              onOpen(row)
            }}
          >
            {words}
          </a>
        ) : (
          <span>
            {words}
            {row.spoken?.model && <span className={css.quiet}> {revealed(row.spoken.model)}</span>}
          </span>
        )}
        <span className={css.state}>
          {row.isEdited && (
            <Link {...to.call(row.id)} className={css.changed}>
              <Badge tone="warn" shape="none" title="A person approved it with another input. Open it to see both.">
                input changed
              </Badge>
            </Link>
          )}
          <State row={row} />
        </span>
      </div>
      <div className={css.track} aria-hidden="true">
        <Bar row={row} timeline={timeline} />
      </div>
      <span className={css.took}>
        {row.until === undefined && <span className="visually-hidden">so far </span>}
        {duration(Math.max(0, lasted))}
      </span>
      {row.spoken && hasWords(row.spoken) && (
        <div className={css.said} style={{ paddingLeft: Math.min(row.depth, DEPTH_MAX) * 18 + 22 }}>
          <Said spoken={row.spoken} hasFailed={row.state === 'failed'} />
        </div>
      )}
    </li>
  )
}

function State({ row }: { row: TimelineRow }) {
  if (row.kind === 'call')
    return row.state === 'completed' ? (
      <span className="visually-hidden">completed</span>
    ) : (
      <CallBadge status={row.state} error={row.error} />
    )
  if (row.kind === 'unread') return <CallBadge status="failed" error={row.error?.split(' ')[0]} />
  if (row.kind === 'run') return <RunBadge state={row.state} />
  if (row.kind === 'question')
    return row.state === 'answered' ? <span className={css.quiet}>answered</span> : <ApprovalBadge state={row.state} />
  if (row.kind === 'model' && row.state !== 'completed') return <span className={css.quiet}>{row.state}</span>
  return null
}

const TONES: Readonly<Record<string, string>> = {
  failed: 'bad',
  rejected: 'bad',
  outcome_unknown: 'warn',
  cancelled: 'idle',
  expired: 'idle',
}

function Bar({ row, timeline }: { row: TimelineRow; timeline: Told }) {
  const place = placeOf(row, timeline)
  const wait = row.wait && placeOf(row.wait, timeline)
  const style = ({ left, width }: { left: number; width: number }) => ({ left: `${left}%`, width: `${width}%` })
  return (
    <>
      <span
        className={css.bar}
        data-tone={TONES[row.state] ?? 'plain'}
        data-kind={row.kind}
        data-open={row.until === undefined || undefined}
        style={style(place)}
      />
      {wait && <span className={css.wait} style={style(wait)} title="Waited for a person" />}
    </>
  )
}
