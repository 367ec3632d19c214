// Text of one line or many, secrets, numbers.
import { Eye, EyeOff } from 'lucide-react'
import { type KeyboardEvent, useState } from 'react'
import css from './Form.module.css'
import { useControl } from './Frame'
import { placeholderOf } from './hints'
import type { Json, JsonObject } from './json'
import { fieldType } from './shape'

interface Props {
  schema: JsonObject
  value: Json | undefined
  onChange: (value: Json | undefined) => void
  /** What an empty field stands for: absent, null, or in a list an empty text. */
  empty: Json | undefined
  pointer: string
  required: boolean
  hasHint: boolean
}

const MODES: Record<string, 'email' | 'url' | 'tel'> = {
  email: 'email',
  'idn-email': 'email',
  uri: 'url',
  url: 'url',
  'uri-reference': 'url',
  phone: 'tel',
  tel: 'tel',
}
const MONO = new Set([
  'uuid',
  'uri',
  'url',
  'regex',
  'json-pointer',
  'ipv4',
  'ipv6',
  'hostname',
  'blob',
  'uri-template',
])

export function TextField({
  schema,
  value,
  onChange,
  empty,
  pointer,
  required,
  hasHint,
  long = false,
}: Props & { long?: boolean }) {
  const control = useControl(pointer, required, hasHint)
  const format = typeof schema.format === 'string' ? schema.format : (fieldType(schema) ?? '')
  const mode = MODES[format]
  const shared = {
    ...control,
    value: typeof value === 'string' ? value : '',
    placeholder: placeholderOf(schema),
    readOnly: schema.readOnly === true,
    spellCheck: long && format !== 'code' && format !== 'sql',
    autoComplete: 'off',
    onChange: (event: { currentTarget: { value: string } }) => {
      const text = event.currentTarget.value
      onChange(text === '' ? empty : text)
    },
  }
  const isMono = MONO.has(format) || ['code', 'sql', 'json', 'yaml', 'html'].includes(format)
  const classes = `${css.input} ${isMono ? css.mono : ''}`
  if (long) return <textarea {...shared} className={`${classes} ${css.long}`} rows={4} />
  return <input {...shared} type="text" className={classes} {...(mode ? { inputMode: mode } : {})} />
}

export function SecretField({ schema, value, onChange, empty, pointer, required, hasHint }: Props) {
  const control = useControl(pointer, required, hasHint)
  const [isShown, setShown] = useState(false)
  return (
    <div className={css.joined}>
      <input
        {...control}
        type={isShown ? 'text' : 'password'}
        autoComplete="off"
        className={`${css.input} ${css.mono}`}
        value={typeof value === 'string' ? value : ''}
        placeholder={placeholderOf(schema)}
        onChange={(event) => onChange(event.currentTarget.value === '' ? empty : event.currentTarget.value)}
      />
      <span className={css.tools}>
        <button
          type="button"
          className={css.tool}
          aria-label={isShown ? 'Hide what is typed' : 'Show what is typed'}
          aria-pressed={isShown}
          onClick={() => setShown(!isShown)}
        >
          {isShown ? <EyeOff aria-hidden="true" /> : <Eye aria-hidden="true" />}
        </button>
      </span>
    </div>
  )
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/

/** The number, or the text itself while it is none: what was typed is never lost, and the check says what is wrong. */
export function numberOf(text: string): number | string | undefined {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  const number = NUMBER.test(trimmed) ? Number(trimmed) : Number.NaN
  const isExact = Number.isFinite(number) && (!Number.isInteger(number) || Number.isSafeInteger(number))
  return isExact ? number : trimmed
}

export function NumberField({ schema, value, onChange, empty, pointer, required, hasHint }: Props) {
  const control = useControl(pointer, required, hasHint)
  // As typed: `1.0` on the way to `1.05` must not become `1`.
  const [typed, setTyped] = useState('')
  const shown =
    typed !== '' && numberOf(typed) === value ? typed : value === undefined || value === null ? '' : String(value)
  const stepped = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return
    if (schema.readOnly === true || event.altKey || event.metaKey || event.ctrlKey) return
    event.preventDefault()
    onChange(steppedNumber(schema, value, event.key === 'ArrowUp' ? 1 : -1, event.shiftKey ? 10 : 1))
  }
  return (
    <input
      {...control}
      type="text"
      inputMode={schema.type === 'integer' ? 'numeric' : 'decimal'}
      autoComplete="off"
      className={`${css.input} ${css.number}`}
      value={shown}
      placeholder={placeholderOf(schema)}
      readOnly={schema.readOnly === true}
      onKeyDown={stepped}
      onChange={(event) => {
        setTyped(event.currentTarget.value)
        onChange(numberOf(event.currentTarget.value) ?? empty)
      }}
    />
  )
}

/** The next number up or down, within the bounds and on the steps. */
export function steppedNumber(schema: JsonObject, value: Json | undefined, way: 1 | -1, times: number): number {
  const step = typeof schema.multipleOf === 'number' && schema.multipleOf > 0 ? schema.multipleOf : 1
  const min = typeof schema.minimum === 'number' ? schema.minimum : Number.NEGATIVE_INFINITY
  const max = typeof schema.maximum === 'number' ? schema.maximum : Number.POSITIVE_INFINITY
  if (typeof value !== 'number') return Number.isFinite(min) ? min : Math.min(0, max)
  const digits = Math.max(decimals(step), decimals(value))
  const next = Number((value + way * times * step).toFixed(digits))
  return Math.min(Math.max(next, min), max)
}

function decimals(value: number): number {
  return Math.min(String(value).split('.')[1]?.length ?? 0, 12)
}
