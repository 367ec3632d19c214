// Follows which part of an element has been on the screen, above the bar with the buttons.
import { type RefObject, useCallback, useEffect, useState } from 'react'
import { above, firstUnseen, type Interval, seen } from './coverage'

export interface Coverage {
  /** Pixels from the top of the first part that was never on the screen. */
  unseenAt: number | undefined
  /** Something opened there: what is below is new. */
  openedAt: (top: number) => void
  /** Brings the first unseen part into view. */
  showUnseen: () => void
}

/** The element that scrolls and holds the card; without one it is the window. */
const PANE = '[data-pane]'

function viewOf(box: HTMLElement, bar: HTMLElement | null): Interval {
  const pane = box.closest(PANE)?.getBoundingClientRect()
  const bottom = Math.min(window.innerHeight, pane?.bottom ?? Number.POSITIVE_INFINITY)
  return [Math.max(0, pane?.top ?? 0), Math.min(bottom, bar?.getBoundingClientRect().top ?? bottom)]
}

export function useCoverage(box: RefObject<HTMLElement | null>, bar: RefObject<HTMLElement | null>): Coverage {
  const [state, setState] = useState<{ intervals: readonly Interval[]; height: number }>({ intervals: [], height: -1 })
  useEffect(() => {
    const element = box.current
    if (!element) return
    const look = () => {
      if (document.visibilityState !== 'visible') return
      const { top, height } = element.getBoundingClientRect()
      const [from, until] = viewOf(element, bar.current)
      const part: Interval = [Math.max(0, from - top), Math.min(height, until - top)]
      setState((before) => {
        const intervals = seen(before.intervals, part)
        return before.height === height && same(intervals, before.intervals) ? before : { intervals, height }
      })
    }
    look()
    const resized = new ResizeObserver(look)
    resized.observe(element)
    // Captured: a pane's scrolling does not bubble.
    const options = { capture: true, passive: true }
    window.addEventListener('scroll', look, options)
    window.addEventListener('resize', look)
    document.addEventListener('visibilitychange', look)
    return () => {
      resized.disconnect()
      window.removeEventListener('scroll', look, options)
      window.removeEventListener('resize', look)
      document.removeEventListener('visibilitychange', look)
    }
  }, [box, bar])

  const unseenAt = state.height < 0 ? 0 : firstUnseen(state.intervals, state.height)
  const openedAt = useCallback(
    (top: number) => setState(({ intervals }) => ({ intervals: above(intervals, top), height: -1 })),
    [],
  )
  const showUnseen = () => {
    const element = box.current
    if (!element || unseenAt === undefined) return
    const [from] = viewOf(element, bar.current)
    // A line of what was seen stays, to find one's place.
    const by = element.getBoundingClientRect().top + unseenAt - from - 24
    const pane = element.closest(PANE)
    const scrolls = pane && getComputedStyle(pane).overflowY !== 'visible'
    if (scrolls) pane.scrollBy({ top: by })
    else window.scrollBy({ top: by })
  }
  return { unseenAt, openedAt, showUnseen }
}

function same(left: readonly Interval[], right: readonly Interval[]): boolean {
  return left.length === right.length && left.every(([a, b], i) => a === right[i]?.[0] && b === right[i]?.[1])
}
