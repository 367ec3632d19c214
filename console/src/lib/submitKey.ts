// Ctrl Enter, or ⌘ Enter: sends what is being filled in, also from within a text of several lines.
import { useEffect, useRef } from 'react'

const isMac = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform)

/** As it is written on the keyboard that is likely there. */
export const SUBMIT_KEYS = isMac ? '⌘ Enter' : 'Ctrl Enter'

interface Taker {
  act: () => void
  inDialog: boolean
}

// What opened last takes it: a dialog before the page it lies on.
const takers: Taker[] = []

function pressed(event: KeyboardEvent): void {
  if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
  if (event.repeat || event.isComposing) return
  const taker = takers.at(-1)
  if (!taker) return
  // A dialog that takes no such key keeps it from what lies behind.
  if (!taker.inDialog && document.querySelector('[role=dialog], [role=alertdialog]')) return
  event.preventDefault()
  event.stopPropagation()
  taker.act()
}

/** `act` may be another function each time: the newest counts. It decides itself whether it may be sent now. */
export function useSubmitKey(act: () => void, inDialog = false): void {
  const newest = useRef(act)
  useEffect(() => {
    newest.current = act
  })
  useEffect(() => {
    const taker: Taker = { act: () => newest.current(), inDialog }
    // Before editors, to which the same keys mean a new line.
    if (takers.length === 0) window.addEventListener('keydown', pressed, true)
    takers.push(taker)
    return () => {
      takers.splice(takers.indexOf(taker), 1)
      if (takers.length === 0) window.removeEventListener('keydown', pressed, true)
    }
  }, [inDialog])
}

/** The same as an element, for a dialog that is only there at times. */
export function SubmitKey({ act }: { act: () => void }): null {
  useSubmitKey(act, true)
  return null
}
