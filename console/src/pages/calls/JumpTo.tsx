// Scrolls to a day. Nothing is narrowed down: what is newer is above, what is older below.
import { CalendarSearch } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { exact } from '../../lib/time'
import { Button } from '../../ui/Button'
import { notify } from '../../ui/Notices'
import css from './CallsPage.module.css'
import { Day } from './Day'
import { isMeantDay, jumpTo } from './jump'
import type { CallRow } from './queries'

const PAUSE_MS = 500

export function JumpTo({
  rows,
  isMore,
  more,
  reveal,
  until,
}: {
  rows: readonly CallRow[]
  isMore: boolean
  /** Reads the next page, unless it is on its way. */
  more: () => void
  reveal: (index: number) => void
  /** The filter instead, for a day too far back. */
  until: (day: string) => void
}) {
  const [day, setDay] = useState('')
  const [going, setGoing] = useState('')
  const step = going === '' ? undefined : jumpTo(going, rows, isMore)
  useEffect(() => {
    if (!isMeantDay(day)) return
    const pause = setTimeout(() => setGoing(day), PAUSE_MS)
    return () => clearTimeout(pause)
  }, [day])
  const arrive = useRef(reveal)
  arrive.current = reveal
  useEffect(() => {
    if (!step || step.kind === 'far') return
    if (step.kind === 'read on') return more()
    setGoing('')
    if (step.index < 0) return
    arrive.current(step.index)
    const at = rows[step.index]?.created_at ?? ''
    if (step.kind === 'before') notify(`There is no older call than this, of ${exact(new Date(at))}.`)
  }, [step, more, rows])
  const stop = () => {
    setDay('')
    setGoing('')
  }
  return (
    <div className={css.jump}>
      <div role="status" className={css.jumping}>
        {step?.kind === 'read on' && (
          <>
            Looking back, {rows.length.toLocaleString('en')} calls so far{' '}
            <Button kind="quiet" size="small" onPress={stop}>
              Stop
            </Button>
          </>
        )}
        {step?.kind === 'far' && (
          <>
            More than {rows.length.toLocaleString('en')} calls back{' '}
            <Button
              size="small"
              onPress={() => {
                until(going)
                stop()
              }}
            >
              Only calls until then
            </Button>
          </>
        )}
      </div>
      <Day
        label="Jump to"
        icon={<CalendarSearch aria-hidden="true" />}
        value={day}
        onChange={(chosen) => {
          setDay(chosen)
          setGoing('')
        }}
      />
    </div>
  )
}
