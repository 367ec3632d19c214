import { type ReactNode, useId } from 'react'
import { Button as AriaButton, type ButtonProps as AriaProps } from 'react-aria-components'
import css from './Button.module.css'

export interface ButtonProps extends Omit<AriaProps, 'children' | 'className' | 'style'> {
  kind?: 'primary' | 'plain' | 'danger' | 'quiet'
  size?: 'normal' | 'small'
  /** Why the button is off. It stays in the tab order, so that everybody can find out. */
  disabledReason?: string | undefined
  icon?: ReactNode
  children?: ReactNode
}

export function Button({ kind = 'plain', size = 'normal', disabledReason, icon, children, ...rest }: ButtonProps) {
  const reasonId = useId()
  const classes = [css.button, css[kind], size === 'small' ? css.small : ''].join(' ')
  if (disabledReason === undefined) {
    return (
      <AriaButton {...rest} className={classes}>
        {icon}
        {children}
      </AriaButton>
    )
  }
  return (
    <span className={css.off} title={disabledReason}>
      <button
        type="button"
        className={classes}
        aria-disabled="true"
        aria-describedby={reasonId}
        aria-label={rest['aria-label']}
      >
        {icon}
        {children}
      </button>
      <span id={reasonId} className="visually-hidden">
        {disabledReason}
      </span>
    </span>
  )
}
