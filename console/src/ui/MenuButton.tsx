// What is done seldom, behind one button.
import { Ellipsis } from 'lucide-react'
import { Button as AriaButton, Menu, MenuItem, MenuTrigger, Popover } from 'react-aria-components'
import button from './Button.module.css'
import field from './Field.module.css'
import css from './MenuButton.module.css'

export interface Act {
  id: string
  label: string
  /** Why it is off now; said below its words. */
  disabledReason?: string | undefined
  act: () => void
}

export function MenuButton({ label, acts }: { label: string; acts: readonly Act[] }) {
  return (
    <MenuTrigger>
      <AriaButton className={`${button.button} ${button.plain}`} aria-label={label}>
        <Ellipsis aria-hidden="true" />
      </AriaButton>
      <Popover className={field.popover ?? ''} placement="bottom end">
        <Menu
          className={field.list ?? ''}
          aria-label={label}
          items={acts}
          disabledKeys={acts.filter(({ disabledReason }) => disabledReason !== undefined).map(({ id }) => id)}
          onAction={(id) => acts.find((one) => one.id === id)?.act()}
        >
          {({ id, label: words, disabledReason }) => (
            <MenuItem id={id} textValue={words} className={`${field.option} ${css.item}`}>
              {words}
              {disabledReason !== undefined && <small className={css.reason}>{disabledReason}</small>}
            </MenuItem>
          )}
        </Menu>
      </Popover>
    </MenuTrigger>
  )
}
