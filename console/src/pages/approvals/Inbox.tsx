// The rows of the inbox. A row that was decided stays in its place, and says so.
import { useQueries } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import { Checkbox } from '../../ui/Checkbox'
import { ApprovalBadge, RiskBadge } from '../../ui/domain'
import { Time } from '../../ui/Time'
import { type Card, endWords, toolOf } from './card'
import css from './Inbox.module.css'
import { cardQuery } from './queries'

const PREVIEW_CHARACTERS = 160

export function Inbox({
  rows,
  gone,
  current,
  chosen,
  onToggle,
  more,
}: {
  rows: readonly Card[]
  gone: ReadonlySet<string>
  current: string | undefined
  chosen: ReadonlySet<string>
  /** Absent for who may not decide. */
  onToggle?: ((id: string) => void) | undefined
  more?: (() => void) | undefined
}) {
  // What became of those that left the list while they were on the screen.
  const ended = useQueries({ queries: [...gone].map((id) => cardQuery(id)) })
  const byId = new Map(ended.flatMap(({ data }) => (data ? [[data.id, data] as const] : [])))
  return (
    <ul className={css.rows}>
      {rows.map((row) => (
        <Row
          key={row.id}
          row={byId.get(row.id) ?? row}
          isGone={gone.has(row.id)}
          isCurrent={row.id === current}
          isChosen={chosen.has(row.id)}
          onToggle={onToggle && (() => onToggle(row.id))}
        />
      ))}
      {more && (
        <li className={css.more}>
          <Button size="small" onPress={more}>
            Show more
          </Button>
        </li>
      )}
    </ul>
  )
}

function Row({
  row,
  isGone,
  isCurrent,
  isChosen,
  onToggle,
}: {
  row: Card
  isGone: boolean
  isCurrent: boolean
  isChosen: boolean
  onToggle: (() => void) | undefined
}) {
  const { name } = toolOf(row)
  const me = useMe().principal
  const isOpen = row.state === 'open' && !isGone
  const who = row.agent ?? row.asked_by
  return (
    <li
      id={`row-${row.id}`}
      className={css.row}
      data-current={isCurrent || undefined}
      data-ended={!isOpen || undefined}
      data-testid="row"
    >
      <span className={css.box}>
        {isOpen && onToggle && (
          <Checkbox isSelected={isChosen} onChange={onToggle} aria-label={`Choose ${name} of ${who}`} />
        )}
      </span>
      <Link
        to="/approvals"
        search={(before) => ({ ...before, id: row.id })}
        className={css.link}
        aria-current={isCurrent ? 'true' : undefined}
      >
        <span className={css.first}>
          <code className={css.tool}>{revealed(name)}</code>
          {isOpen && <RiskBadge risk={row.risk} />}
          {row.state !== 'open' && <ApprovalBadge state={row.state} />}
          <span className={css.when}>
            <Time at={row.decided_at ?? row.created_at} />
          </span>
        </span>
        <span className={css.second}>
          {isOpen ? revealed(who) : revealed(row.state === 'open' ? 'no longer waits' : endWords(row, me))}
          <span className={css.preview}>{revealed(preview(row.input))}</span>
        </span>
      </Link>
    </li>
  )
}

/** The values at a glance; the card shows them exactly. */
function preview(input: unknown): string {
  if (typeof input !== 'object' || input === null) return ''
  // A lone `false` says nothing at a glance.
  const telling = Object.values(input).filter((value) => value !== null && typeof value !== 'boolean')
  const values = telling.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
  return values.join(' · ').replaceAll(/\s+/g, ' ').slice(0, PREVIEW_CHARACTERS)
}
