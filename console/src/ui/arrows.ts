// Up and down among the rows of a list, for rows that are links: Enter then opens the one that has the focus.
import type { KeyboardEvent } from 'react'

/** Moves the focus to the next or the last link in `list`; from outside of the links, to the first. */
export function moveAmongLinks(event: KeyboardEvent, list: HTMLElement | null): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
  if (step === 0 || !list || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return
  const links = [...list.querySelectorAll<HTMLAnchorElement>('[role="row"] a[href]')].sort(byPlace)
  const at = links.indexOf(document.activeElement as HTMLAnchorElement)
  const next = links[at === -1 ? 0 : at + step]
  if (!next) return
  event.preventDefault()
  next.focus({ preventScroll: true })
  next.closest('[role="row"]')?.scrollIntoView({ block: 'nearest' })
}

// A list that shows only what is in sight keeps its elements in no certain order.
function byPlace(one: Element, other: Element): number {
  return one.getBoundingClientRect().top - other.getBoundingClientRect().top
}
