// Labelled inputs outside of schema forms: filters, dialogs, settings.
import { ChevronDown, Search } from 'lucide-react'
import type { Ref } from 'react'
import {
  SearchField as AriaSearchField,
  Select as AriaSelect,
  TextField as AriaTextField,
  Button,
  FieldError,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  SelectValue,
  Text,
  TextArea,
} from 'react-aria-components'
import css from './Field.module.css'

export interface TextFieldProps {
  label: string
  value: string
  onChange: (value: string) => void
  type?: 'text' | 'password' | 'email' | 'url' | 'number'
  autoComplete?: string
  hint?: string
  error?: string | undefined
  required?: boolean
  lines?: number
  mono?: boolean
  autoFocus?: boolean
  /** The label is for screen readers only; what it is for must be plain from its place. */
  hideLabel?: boolean
}

export function TextField({
  label,
  hint,
  error,
  required,
  lines,
  mono,
  autoFocus,
  autoComplete,
  hideLabel,
  ...rest
}: TextFieldProps) {
  const classes = mono ? `${css.input} ${css.mono}` : (css.input ?? '')
  return (
    <AriaTextField
      {...rest}
      {...(autoComplete === undefined ? {} : { autoComplete })}
      className={css.field ?? ''}
      isInvalid={error !== undefined}
      isRequired={required ?? false}
      autoFocus={autoFocus ?? false}
      validationBehavior="aria"
    >
      <Label className={hideLabel ? 'visually-hidden' : ''}>{label}</Label>
      {lines ? <TextArea className={classes} rows={lines} /> : <Input className={classes} />}
      {hint && (
        <Text slot="description" className={css.hint ?? ''}>
          {hint}
        </Text>
      )}
      <FieldError className={css.error ?? ''}>{error}</FieldError>
    </AriaTextField>
  )
}

export function SearchField({
  label,
  value,
  onChange,
  placeholder,
  inputRef,
}: {
  label: string
  value: string
  onChange: (value: string) => void
  placeholder?: string
  inputRef?: Ref<HTMLInputElement>
}) {
  return (
    <AriaSearchField aria-label={label} value={value} onChange={onChange} className={css.search ?? ''}>
      <Search aria-hidden="true" />
      <Input className={css.input ?? ''} placeholder={placeholder ?? label} ref={inputRef ?? null} />
    </AriaSearchField>
  )
}

export interface Option {
  id: string
  label: string
}

export function Select({
  label,
  options,
  value,
  onChange,
  all,
  hideLabel = false,
  bare = false,
}: {
  label: string
  options: readonly Option[]
  /** Empty: nothing chosen. */
  value: string
  onChange: (value: string) => void
  /** The words for "nothing chosen"; leave out where a choice is a must. */
  all?: string
  hideLabel?: boolean
  /** With a hidden label: the choice stands without it. */
  bare?: boolean
}) {
  const items = all === undefined ? options : [{ id: '', label: all }, ...options]
  return (
    <AriaSelect
      className={css.field ?? ''}
      value={value}
      onChange={(chosen) => onChange(String(chosen ?? ''))}
      {...(hideLabel ? { 'aria-label': label } : {})}
    >
      {!hideLabel && <Label className={css.label ?? ''}>{label}</Label>}
      <Button className={css.select ?? ''} data-chosen={(all !== undefined && value !== '') || undefined}>
        <SelectValue>
          {({ selectedText }) =>
            hideLabel && !bare && value !== '' ? `${label}: ${selectedText}` : selectedText || label
          }
        </SelectValue>
        <ChevronDown aria-hidden="true" />
      </Button>
      <Popover className={css.popover ?? ''}>
        <ListBox items={items} className={css.list ?? ''}>
          {({ id, label: words }) => (
            <ListBoxItem id={id} textValue={words} className={css.option ?? ''}>
              {words}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  )
}
