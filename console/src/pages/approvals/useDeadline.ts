// A clock that ticks each second, for deadlines.
import { useSyncExternalStore } from 'react'

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
  }, 1_000)
  return () => {
    watchers.delete(changed)
    if (watchers.size > 0) return
    clearInterval(ticking)
    ticking = undefined
  }
}

export function useSecond(): number {
  return useSyncExternalStore(watch, () => now)
}
