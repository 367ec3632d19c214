// Short news at the edge of the screen, read out by screen readers: `notify('Saved')`.
import { X } from 'lucide-react'
import { useSyncExternalStore } from 'react'
import { Button } from './Button'
import css from './Notices.module.css'

interface Notice {
  id: number
  words: string
  tone: 'ok' | 'bad'
}

const SHOWN_MS = 6_000
const SHOWN_MAX = 4
let notices: readonly Notice[] = []
let last = 0
const watchers = new Set<() => void>()

function become(next: readonly Notice[]) {
  notices = next
  for (const watcher of watchers) watcher()
}

const remove = (id: number) => become(notices.filter((notice) => notice.id !== id))

export function notify(words: string, tone: Notice['tone'] = 'ok'): void {
  last += 1
  const id = last
  become([...notices, { id, words, tone }].slice(-SHOWN_MAX))
  setTimeout(() => remove(id), SHOWN_MS)
}

export function Notices() {
  const shown = useSyncExternalStore(
    (changed) => {
      watchers.add(changed)
      return () => watchers.delete(changed)
    },
    () => notices,
  )
  return (
    <div className={css.notices} role="status" aria-live="polite">
      {shown.map(({ id, words, tone }) => (
        <div key={id} className={`${css.notice} ${css[tone]}`}>
          <span>{words}</span>
          <Button kind="quiet" size="small" aria-label="Dismiss" icon={<X />} onPress={() => remove(id)} />
        </div>
      ))}
    </div>
  )
}
