import { useNow } from '../lib/clock'
import { exact, relative } from '../lib/time'

/** A time in words; exact in UTC when hovered, and to a screen reader. */
export function Time({ at }: { at: string }) {
  const date = new Date(at)
  const present = new Date(Math.max(useNow(), Number.isNaN(date.getTime()) ? 0 : Math.min(date.getTime(), Date.now())))
  if (Number.isNaN(date.getTime())) return <span>{at}</span>
  return (
    <time dateTime={at} title={exact(date)}>
      {relative(date, present)}
    </time>
  )
}
