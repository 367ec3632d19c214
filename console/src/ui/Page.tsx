// The frame of a page: one line of header with a rule under it, then what it shows.
import { type ReactNode, useEffect } from 'react'
import { revealed } from '../lib/hidden'
import css from './Page.module.css'

export function Page({
  title,
  mono = false,
  count,
  badges,
  actions,
  children,
}: {
  title: string
  /** The title is an identifier. */
  mono?: boolean
  count?: string | undefined
  badges?: ReactNode
  actions?: ReactNode
  children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · Toolgate`
  }, [title])
  return (
    <div className={css.page}>
      <header className={css.header}>
        <h1 className={mono ? css.mono : undefined}>{revealed(title)}</h1>
        {count !== undefined && <span className={css.count}>{count}</span>}
        {badges && <div className={css.badges}>{badges}</div>}
        {actions && <div className={css.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  )
}

export function Body({ narrow = false, children }: { narrow?: boolean; children: ReactNode }) {
  return <div className={narrow ? `${css.body} ${css.narrow}` : css.body}>{children}</div>
}
