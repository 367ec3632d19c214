// Where the time went, as one small bar.

import { useNow } from '../../lib/clock'
import { duration } from '../../lib/time'
import css from './Call.module.css'
import { phasesOf, phaseWords } from './phases'
import type { Call, CallEvent } from './queries'

export function Timing({ call, events }: { call: Call; events: readonly CallEvent[] }) {
  const now = useNow()
  const phases = phasesOf(call, events, now)
  const total = phases.reduce((sum, { ms }) => sum + ms, 0)
  // A call that was refused or taken back has no time of its own.
  if (!call.started_at && call.completed_at && call.approval_status === 'not_required') {
    return <p className={css.took}>It was refused before it ran.</p>
  }
  if (total === 0) return <p className={css.took}>It took less than a millisecond.</p>
  return (
    <figure className={css.timing} aria-label="Where the time went">
      <div className={css.bar} aria-hidden="true">
        {phases.map(({ kind, ms }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the phases never change places
          <span key={index} data-kind={kind} style={{ flexGrow: ms }} />
        ))}
      </div>
      <figcaption>
        <b>{duration(total)}</b>
        {phases.map(({ kind, ms }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the phases never change places
          <span key={index}>
            <i data-kind={kind} aria-hidden="true" /> {phaseWords(kind)} {duration(ms)}
          </span>
        ))}
      </figcaption>
    </figure>
  )
}
