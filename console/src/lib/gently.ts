// Brings what has come of a press into sight: smoothly, or at once for who wants no motion, and not at all where it is
// in sight already. The focus stays where it is; live regions tell who cannot see it.
export function showGently(element: HTMLElement | null): void {
  if (!element) return
  const { top, bottom, height } = element.getBoundingClientRect()
  const seen = window.innerHeight
  if (top >= 0 && bottom <= seen) return
  const still = window.matchMedia('(prefers-reduced-motion: reduce)').matches
  // What is taller than the window is read from its beginning.
  element.scrollIntoView({ behavior: still ? 'auto' : 'smooth', block: height > seen || top < 0 ? 'start' : 'nearest' })
}
