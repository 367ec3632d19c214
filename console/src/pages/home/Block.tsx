// A part of the first page: its title, a note at the right, and what it shows once that is there.
import type { ReactNode } from 'react'
import css from './Block.module.css'

export function Block({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <div className={css.head}>
        <h2>{title}</h2>
        {note && <div className={css.note}>{note}</div>}
      </div>
      {children}
    </section>
  )
}
