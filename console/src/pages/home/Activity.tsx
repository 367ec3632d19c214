// The calls of a day as bars, one an hour; the same in words for who does not see them.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { to } from '../../paths'
import { Problem } from '../../ui/Problem'
import css from './Activity.module.css'
import { activityWords, type Hour, OUTCOMES, type Part, total } from './activity'
import { Block } from './Block'
import { home } from './queries'

const WIDTH = 480
const HEIGHT = 96
const GAP = 3

export function Activity() {
  const activity = useQuery(home.activity())
  const hours = activity.data?.hours
  return (
    <Block
      title="Calls, 24 hours"
      note={<Link {...to.calls(activity.data ? { since: activity.data.from } : {})}>All of them</Link>}
    >
      {activity.isError && !hours ? (
        <Problem error={activity.error} retry={() => void activity.refetch()} />
      ) : (
        <div className={css.chart}>{hours ? <Bars hours={hours} /> : <div className={css.empty} />}</div>
      )}
      {hours && (
        <>
          <p className={css.words}>
            {activityWords(hours)}
            {!activity.data?.isAll && ' Only the newest 1,000 are counted.'}
          </p>
          <Legend parts={activity.data?.parts ?? []} from={activity.data?.from ?? ''} />
        </>
      )}
    </Block>
  )
}

/** What the colours mean, with how many: each number leads to those calls. */
function Legend({ parts, from }: { parts: readonly Part[]; from: string }) {
  return (
    <ul className={css.legend}>
      {parts.map(({ outcome, words, count, status }) => (
        <li key={status} className={css[outcome]}>
          <Link {...to.calls({ status, since: from })}>
            <b>{count.toLocaleString('en')}</b> {words}
          </Link>
        </li>
      ))}
    </ul>
  )
}

function Bars({ hours }: { hours: readonly Hour[] }) {
  const most = Math.max(1, ...hours.map(total))
  const width = WIDTH / hours.length
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT + 16}`} role="img" aria-label={activityWords(hours)}>
      <line x1="0" x2={WIDTH} y1={HEIGHT + 0.5} y2={HEIGHT + 0.5} className={css.axis} />
      {hours.map((hour, index) => {
        let top = HEIGHT
        return (
          <g key={hour.at}>
            {OUTCOMES.map((kind) => {
              const height = (hour[kind] / most) * (HEIGHT - 4)
              top -= height
              return height === 0 ? null : (
                <rect
                  key={kind}
                  x={index * width + GAP / 2}
                  y={top}
                  width={width - GAP}
                  height={height}
                  className={css[kind]}
                />
              )
            })}
            {index % 6 === 0 && (
              <text x={index * width + GAP / 2} y={HEIGHT + 14} className={css.label}>
                {new Date(hour.at).getHours()}:00
              </text>
            )}
          </g>
        )
      })}
    </svg>
  )
}
