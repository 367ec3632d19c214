// A value of any kind, as JSON text; what cannot be read is said and keeps the form from being sent.
import { useEffect, useState } from 'react'
import { useForm } from './context'
import css from './Form.module.css'
import { useControl } from './Frame'
import { type Json, same } from './json'
import { parseJson } from './parse'

export function JsonField({
  value,
  onChange,
  pointer,
  required,
  hasHint,
}: {
  value: Json | undefined
  onChange: (value: Json | undefined) => void
  pointer: string
  required: boolean
  hasHint: boolean
}) {
  const { block } = useForm()
  const control = useControl(pointer, required, hasHint)
  const [typed, setTyped] = useState(() => written(value))
  const parsed = typed.trim() === '' ? undefined : parseJson(typed)
  const wrong = parsed && 'wrong' in parsed ? parsed.wrong : undefined
  const isCurrent = wrong !== undefined || same(parsed && 'value' in parsed ? parsed.value : undefined, value)
  const shown = isCurrent ? typed : written(value)
  useEffect(() => () => block(pointer, undefined), [block, pointer])
  return (
    <>
      <textarea
        {...control}
        aria-invalid={wrong ? true : control['aria-invalid']}
        className={`${css.input} ${css.mono} ${css.json}`}
        rows={2}
        spellCheck={false}
        placeholder={'JSON: "text", 12, true, [1, 2], {"name": "…"}'}
        value={shown}
        onChange={(event) => {
          const text = event.currentTarget.value
          setTyped(text)
          const next = text.trim() === '' ? undefined : parseJson(text)
          if (next && 'wrong' in next) {
            block(pointer, 'A field holds text that is not JSON.')
            return
          }
          block(pointer, undefined)
          onChange(next?.value)
        }}
      />
      <p role="status" className={wrong ? css.wrong : 'visually-hidden'}>
        {wrong && `Line ${wrong.line}, column ${wrong.column}: ${wrong.message}.`}
      </p>
    </>
  )
}

function written(value: Json | undefined): string {
  if (value === undefined) return ''
  const text = JSON.stringify(value)
  return text.length > 60 ? JSON.stringify(value, null, 2) : text
}
