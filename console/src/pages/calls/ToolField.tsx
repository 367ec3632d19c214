// The tool to look for: any name, with the known ones offered while one types. Enter takes the one that is marked.
import { useQuery } from '@tanstack/react-query'
import { useContext, useEffect, useRef, useState } from 'react'
import { ComboBox, ComboBoxStateContext, Input, ListBox, ListBoxItem, Popover } from 'react-aria-components'
import field from '../../ui/Field.module.css'
import css from './CallsPage.module.css'
import { suggested } from './near'
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
  const isSearching = typed.trim() !== '' && typed !== value
  const offered = isSearching ? suggested(tools, typed) : tools
  const first = isSearching ? offered[0]?.name : undefined
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
      items={offered.map(({ name, title }) => ({ id: name, title }))}
      inputValue={typed}
      onInputChange={setTyped}
      // Without a key it says only that nothing of the list is chosen; Enter and leaving say what is meant.
      onChange={(key) => {
        if (key !== null) send(String(key))
      }}
      // A word that was left half typed chooses nothing, unless it is a name that the list does not know.
      onBlur={() => send(typed.trim() === '' || first === undefined || first === typed.trim() ? typed.trim() : value)}
      onKeyDown={(event) => {
        // With an option in focus Enter chooses that one.
        const chooses = (event.target as HTMLElement).getAttribute('aria-activedescendant')
        if (event.key === 'Enter' && !chooses) send(typed.trim())
      }}
    >
      <Marked name={first} typed={typed} />
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

/** Puts the focus of the list on the best of what is offered, so that Enter takes it. */
function Marked({ name, typed }: { name: string | undefined; typed: string }) {
  const state = useContext(ComboBoxStateContext)
  const manager = state?.isOpen ? state.selectionManager : undefined
  const current = useRef(manager)
  current.current = manager
  const isOpen = manager !== undefined
  useEffect(() => {
    // Each letter takes the focus off the list, just after this effect.
    if (isOpen && name !== undefined && typed !== '') queueMicrotask(() => current.current?.setFocusedKey(name))
  }, [isOpen, name, typed])
  return null
}
