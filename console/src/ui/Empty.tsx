// Nothing here yet: why, and what to do next.
import type { ReactNode } from 'react'
import { CopyLine } from './CopyLine'
import css from './Empty.module.css'

export function Empty({
  icon,
  title,
  command,
  children,
}: {
  icon?: ReactNode
  title: ReactNode
  /** A line for the terminal that would change it. */
  command?: string
  children?: ReactNode
}) {
  return (
    <div className={css.empty}>
      {icon}
      <h2>{title}</h2>
      {children && <div className={css.words}>{children}</div>}
      {command && (
        <div className={css.command}>
          <CopyLine text={command} what="command" />
        </div>
      )}
    </div>
  )
}
