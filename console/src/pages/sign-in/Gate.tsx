// The frame of the pages before the sign-in: one narrow column, the mark above.
import { type ReactNode, useEffect } from 'react'
import css from './Gate.module.css'

export function Gate({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Toolgate`
  }, [title])
  return (
    <main className={css.gate}>
      <div className={css.column}>
        <p className={css.brand}>
          <img src="/mark.svg" alt="" width="20" height="20" /> Toolgate
        </p>
        <h1>{title}</h1>
        {children}
      </div>
    </main>
  )
}
