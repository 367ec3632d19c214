// What was told about a call while it went on.
import { useNames } from '../../app/names'
import { revealed } from '../../lib/hidden'
import { duration, exact } from '../../lib/time'
import css from './Call.module.css'
import { eventWords } from './eventWords'
import type { CallEvent } from './queries'

export function Events({ events, from, principal }: { events: readonly CallEvent[]; from: string; principal: string }) {
  const nameOf = useNames()
  if (events.length === 0) return <p className={css.quiet}>None is kept.</p>
  const start = Date.parse(from)
  return (
    <ol className={css.events}>
      {events.map((event) => (
        <li key={`${event.seq} ${event.part ?? ''} ${event.at}`}>
          <time dateTime={event.at} title={exact(new Date(event.at))}>
            +{duration(Math.max(0, Date.parse(event.at) - start))}
          </time>
          <code>{event.type}</code>
          <span className={css.quiet}>{revealed(eventWords(event, principal, nameOf))}</span>
        </li>
      ))}
    </ol>
  )
}
