// A titled part of a page.
import type { ReactNode } from 'react'
import css from './Section.module.css'

export function Section({ title, note, children }: { title: string; note?: string; children?: ReactNode }) {
  return (
    <section className={css.section} aria-label={title}>
      <h2>{title}</h2>
      {note && <p className={css.note}>{note}</p>}
      {children}
    </section>
  )
}
