import { useSyncExternalStore } from 'react'
import { exact, relative } from '../lib/time'

const TICK_MS = 10_000
const watchers = new Set<() => void>()
let now = Date.now()
let ticking: ReturnType<typeof setInterval> | undefined

function watch(changed: () => void) {
  // Nobody looked at the clock for a while: it stood still.
  if (watchers.size === 0) now = Date.now()
  watchers.add(changed)
  ticking ??= setInterval(() => {
    now = Date.now()
    for (const watcher of watchers) watcher()
  }, TICK_MS)
  return () => {
    watchers.delete(changed)
    if (watchers.size > 0) return
    clearInterval(ticking)
    ticking = undefined
  }
}

/** One clock for all times on the screen. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now)
}

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
