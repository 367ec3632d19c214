// Names and what they stand for, in lines: a call's facts, an approval's, a tool's.
import type { ReactNode } from 'react'
import css from './Facts.module.css'

export function Facts({ children }: { children: ReactNode }) {
  return <dl className={css.facts}>{children}</dl>
}

/** Also in lists that are laid out otherwise: it has no look of its own. */
export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
