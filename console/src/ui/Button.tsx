import { type ReactNode, useId } from 'react'
import { Button as AriaButton, type ButtonProps as AriaProps } from 'react-aria-components'
import css from './Button.module.css'

export interface ButtonProps extends Omit<AriaProps, 'children' | 'className' | 'style'> {
  kind?: 'primary' | 'plain' | 'danger' | 'quiet'
  size?: 'normal' | 'small'
  /** Why the button is off. It stays in the tab order, so that everybody can find out. */
  disabledReason?: string | undefined
  /** The keys that do the same, as written on them: shown when hovered. */
  keys?: string | undefined
  icon?: ReactNode
  children?: ReactNode
}

export function Button({
  kind = 'plain',
  size = 'normal',
  disabledReason: reason,
  isPending = false,
  keys,
  icon,
  children,
  ...rest
}: ButtonProps) {
  // Not react-aria's way to wait: it announces an element that may be gone.
  const disabledReason = reason ?? (isPending ? 'One moment…' : undefined)
  const reasonId = useId()
  const classes = [css.button, css[kind], size === 'small' ? css.small : ''].join(' ')
  const isOff = disabledReason !== undefined
  // One element, on or off: whoever has the focus on it keeps it.
  const off: Partial<AriaProps> = isOff ? { ...OFF, 'aria-describedby': reasonId } : {}
  return (
    <>
      <AriaButton
        {...rest}
        {...off}
        className={classes}
        render={(props) => (
          <button
            {...props}
            title={disabledReason ?? keys ?? props.title}
            aria-keyshortcuts={keys?.replace('⌘', 'Meta').replace('Ctrl', 'Control').replaceAll(' ', '+')}
          />
        )}
      >
        {icon}
        {children}
      </AriaButton>
      {isOff && (
        <span id={reasonId} className="visually-hidden">
          {disabledReason}
        </span>
      )}
    </>
  )
}

/** What a press does while the button is off: nothing, not even sending the form. */
const nothing = () => {}
const OFF = {
  type: 'button',
  'aria-disabled': true,
  onPress: nothing,
  onPressStart: nothing,
  onPressEnd: nothing,
  onPressUp: nothing,
  onPressChange: nothing,
  onClick: nothing,
} satisfies Partial<AriaProps>
