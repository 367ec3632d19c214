// Around every field: its label, whether it must be filled, what it is for, and what is wrong with it.
import type { ReactNode } from 'react'
import { revealed } from '../lib/hidden'
import { idOf, useForm } from './context'
import css from './Form.module.css'
import type { Json } from './json'

const HINT_MAX = 2_000

export interface ControlProps {
  id: string
  disabled: boolean
  'aria-describedby': string | undefined
  'aria-invalid': true | undefined
  'aria-required': true | undefined
}

export function useControl(pointer: string, required: boolean, hasHint: boolean): ControlProps {
  const { id: form, disabled, messagesAt } = useForm()
  const id = idOf(form, pointer)
  const isWrong = messagesAt(pointer).length > 0
  const described = [hasHint ? `${id}-hint` : '', isWrong ? `${id}-wrong` : ''].filter((part) => part !== '').join(' ')
  return {
    id,
    disabled,
    'aria-describedby': described === '' ? undefined : described,
    'aria-invalid': isWrong || undefined,
    'aria-required': required || undefined,
  }
}

export function Frame({
  pointer,
  label,
  required,
  hint,
  bare = false,
  as = 'label',
  aside,
  children,
}: {
  pointer: string
  label: string
  required: boolean
  hint?: string | undefined
  bare?: boolean
  /** `span` where the control is a group that takes its name from the label. */
  as?: 'label' | 'span'
  aside?: ReactNode
  children: ReactNode
}) {
  const { id: form } = useForm()
  const id = idOf(form, pointer)
  const words = revealed(label)
  return (
    <div className={css.field} data-pointer={pointer}>
      <div className={bare ? 'visually-hidden' : css.head}>
        {as === 'label' ? (
          <label id={`${id}-label`} htmlFor={id}>
            {words}
          </label>
        ) : (
          <span id={`${id}-label`} className={css.label}>
            {words}
          </span>
        )}
        <Need required={required} />
        {aside}
      </div>
      {children}
      <Hint pointer={pointer} hint={hint} />
      <Wrongs pointer={pointer} />
    </div>
  )
}

export function Need({ required }: { required: boolean }) {
  return <span className={css.need}>{required ? 'required' : 'optional'}</span>
}

export function Hint({ pointer, hint }: { pointer: string; hint: string | undefined }) {
  const { id: form } = useForm()
  if (hint === undefined || hint === '') return null
  return (
    <p id={`${idOf(form, pointer)}-hint`} className={css.hint}>
      <Words text={hint.slice(0, HINT_MAX)} />
    </p>
  )
}

/** Words of others with `code` in them: text, with what hides in it shown. */
export function Words({ text }: { text: string }) {
  const parts = text.split(/`([^`]+)`/).map((words, index) => ({ words, index }))
  return parts.map(({ words, index }) =>
    index % 2 === 1 ? <code key={index}>{revealed(words)}</code> : <span key={index}>{revealed(words)}</span>,
  )
}

export function Wrongs({ pointer }: { pointer: string }) {
  const { id: form, messagesAt } = useForm()
  const messages = messagesAt(pointer)
  if (messages.length === 0) return null
  return (
    <p id={`${idOf(form, pointer)}-wrong`} className={css.wrong}>
      {messages.map((message) => (
        <span key={message}>
          <Words text={message} />
        </span>
      ))}
    </p>
  )
}

/** A value that this kind of field cannot show: seen as it is, and only ever taken away by the person. */
export function Foreign({ value, onClear, label }: { value: Json; onClear: () => void; label: string }) {
  const { disabled } = useForm()
  return (
    <div className={css.foreign}>
      <code>{revealed(JSON.stringify(value).slice(0, HINT_MAX))}</code>
      <button type="button" className={css.link} disabled={disabled} onClick={onClear} aria-label={`Clear ${label}`}>
        Clear
      </button>
    </div>
  )
}
