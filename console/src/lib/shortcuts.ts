// Single keys that act on the page. Who does not want them switches them off (WCAG 2.1.4); no key acts while somebody
// writes, in a dialog, or with a modifier held.
import { useEffect, useRef, useSyncExternalStore } from 'react'

const watchers = new Set<() => void>()
const NAME = 'shortcuts'

export function useShortcutsOn(): [on: boolean, set: (on: boolean) => void] {
  const on = useSyncExternalStore(
    (changed) => {
      watchers.add(changed)
      return () => watchers.delete(changed)
    },
    () => localStorage.getItem(NAME) !== 'off',
  )
  const set = (next: boolean) => {
    if (next) localStorage.removeItem(NAME)
    else localStorage.setItem(NAME, 'off')
    for (const watcher of watchers) watcher()
  }
  return [on, set]
}

const WRITING =
  'input:not([type=checkbox]), textarea, select, [contenteditable], [role=dialog], [role=listbox], [role=menu]'

/** `keys` may be a new object each time: the newest counts. */
export function useShortcuts(keys: Record<string, () => void>): void {
  const [on] = useShortcutsOn()
  const newest = useRef(keys)
  useEffect(() => {
    newest.current = keys
  })
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || event.repeat) return
      // The help and the way out always work.
      if (!on && event.key !== '?' && event.key !== 'Escape') return
      if (event.target instanceof Element && event.target.closest(WRITING)) return
      if (document.querySelector('[role=dialog], [role=alertdialog]')) return
      const act = newest.current[event.key]
      if (!act) return
      event.preventDefault()
      act()
    }
    window.addEventListener('keydown', pressed)
    return () => window.removeEventListener('keydown', pressed)
  }, [on])
}
