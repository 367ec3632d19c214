// The tool to look for: any name, with the known ones offered while one types.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { ComboBox, Input, ListBox, ListBoxItem, Popover } from 'react-aria-components'
import field from '../../ui/Field.module.css'
import css from './CallsPage.module.css'
import { callQueries } from './queries'

export function ToolField({ value, onChange }: { value: string; onChange: (tool: string) => void }) {
  const [typed, setTyped] = useState(value)
  const [before, setBefore] = useState(value)
  // The address changed by other means: a link, or going back.
  if (before !== value) {
    setBefore(value)
    setTyped(value)
  }
  const tools = useQuery(callQueries.toolNames()).data?.items ?? []
  const send = (tool: string) => {
    setTyped(tool)
    if (tool !== value) onChange(tool)
  }
  return (
    <ComboBox
      aria-label="Tool"
      className={css.toolField ?? ''}
      allowsCustomValue
      allowsEmptyCollection
      menuTrigger="focus"
      defaultItems={tools.map(({ name, title }) => ({ id: name, title }))}
      inputValue={typed}
      onInputChange={setTyped}
      onChange={(key) => send(String(key ?? typed))}
      onBlur={() => send(typed.trim())}
      onKeyDown={(event) => {
        // With an option in focus Enter chooses that one.
        const chooses = (event.target as HTMLElement).getAttribute('aria-activedescendant')
        if (event.key === 'Enter' && !chooses) send(typed.trim())
      }}
    >
      <Input
        className={`${field.input} ${css.toolInput}`}
        placeholder="Any tool"
        data-chosen={value !== '' || undefined}
      />
      <Popover className={field.popover ?? ''}>
        <ListBox<{ id: string; title: string }>
          className={field.list ?? ''}
          renderEmptyState={() => <p className={css.none}>No known tool; Enter looks for the name.</p>}
        >
          {({ id, title }) => (
            <ListBoxItem id={id} textValue={id} className={field.option ?? ''}>
              <code>{id}</code> <span className={css.quiet}>{title === id ? '' : title}</span>
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </ComboBox>
  )
}
