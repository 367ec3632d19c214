// Clocks that everything on the screen shares: each ticks only while somebody looks at it.
import { useSyncExternalStore } from 'react'

/** A hook that tells the time, anew each `tick_ms`. */
function clock(tick_ms: number): () => number {
  const watchers = new Set<() => void>()
  let now = Date.now()
  let ticking: ReturnType<typeof setInterval> | undefined
  const watch = (changed: () => void) => {
    // Nobody looked at the clock for a while: it stood still.
    if (watchers.size === 0) now = Date.now()
    watchers.add(changed)
    ticking ??= setInterval(() => {
      now = Date.now()
      for (const watcher of watchers) watcher()
    }, tick_ms)
    return () => {
      watchers.delete(changed)
      if (watchers.size > 0) return
      clearInterval(ticking)
      ticking = undefined
    }
  }
  return function useClock() {
    return useSyncExternalStore(watch, () => now)
  }
}

/** For times in words. */
export const useNow = clock(10_000)

/** For deadlines. */
export const useSecond = clock(1_000)
