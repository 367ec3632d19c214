// A list that grows: add, remove, and move by buttons or with Alt and the arrow keys.
import { ArrowDown, ArrowUp, Plus, Trash2 } from 'lucide-react'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { revealed } from '../lib/hidden'
import { Button } from '../ui/Button'
import { idOf, type NodeProps, useForm } from './context'
import css from './Form.module.css'
import { Hint, Need, Wrongs } from './Frame'
import { hintOf } from './hints'
import { child, isList, isObject, type Json, type JsonSchema } from './json'
import { listOf } from './model'
import { Node } from './Node'
import { blankOf, type Shape, shapeOf } from './shape'
import { counted, humanised, summaryOf } from './words'

const SHOWN_MAX = 50

let lastKey = 0
const newKey = () => {
  lastKey += 1
  return lastKey
}

export function ListNode({
  shape,
  value,
  onChange,
  pointer,
  label,
  required,
  depth,
  bare = false,
}: NodeProps & { shape: Shape }) {
  const { model, id: form, disabled } = useForm()
  const id = idOf(form, pointer)
  const { schema } = shape
  const items: readonly Json[] = isList(value) ? value : []
  const fixed = listOf(schema.prefixItems)
  const isFree = schema.items !== false && schema.unevaluatedItems !== false
  const [keys, setKeys] = useState<readonly number[]>(() => items.map(newKey))
  const [shown, setShown] = useState(SHOWN_MAX)
  const [said, setSaid] = useState('')
  const focus = useRef<string>(undefined)
  // Items that came from elsewhere get keys of their own.
  const known = keys.length === items.length ? keys : items.map((_, index) => keys[index] ?? newKey())
  useEffect(() => {
    if (keys.length !== known.length) setKeys(known)
    if (focus.current === undefined) return
    const element = document.getElementById(focus.current)
    const target = element?.matches('button, input')
      ? element
      : element?.querySelector<HTMLElement>('input, textarea, button')
    target?.focus()
    focus.current = undefined
  })
  const max = typeof schema.maxItems === 'number' ? schema.maxItems : Number.POSITIVE_INFINITY
  const min = typeof schema.minItems === 'number' ? schema.minItems : 0
  const one = itemTitle(schema.items, label)
  const hint = hintOf(schema, 'list')

  const partOf = (index: number): JsonSchema => asSchema(fixed[index]) ?? asSchema(schema.items) ?? true
  const change = (next: readonly Json[], nextKeys: readonly number[]) => {
    setKeys(nextKeys)
    onChange(next.length === 0 && !required && !bare ? undefined : next)
  }
  const add = () => {
    const key = newKey()
    focus.current = idOf(form, child(pointer, items.length))
    setShown(Math.max(shown, items.length + 1))
    setSaid(`${one} ${items.length + 1} added`)
    change([...items, blankOf(model, partOf(items.length))], [...known, key])
  }
  const remove = (index: number) => {
    focus.current = items.length > 1 ? `${id}-remove-${known[index + 1] ?? known[index - 1]}` : `${id}-add`
    setSaid(`${one} ${index + 1} removed`)
    change(items.toSpliced(index, 1), known.toSpliced(index, 1))
  }
  const move = (index: number, to: number, button: 'up' | 'down' | undefined) => {
    if (to < fixed.length || to >= items.length || index < fixed.length) return
    const item = items[index]
    const key = known[index]
    if (item === undefined || key === undefined) return
    // At an end the button is off: the other one takes over.
    const isEnd = to === fixed.length || to === items.length - 1
    const next = button === undefined ? undefined : isEnd ? (button === 'up' ? 'down' : 'up') : button
    focus.current = next === undefined ? undefined : `${id}-${next}-${key}`
    setSaid(`${one} ${index + 1} is now ${to + 1}`)
    change(items.toSpliced(index, 1).toSpliced(to, 0, item), known.toSpliced(index, 1).toSpliced(to, 0, key))
  }
  const pressed = (index: number) => (event: KeyboardEvent) => {
    if (!event.altKey || (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') || disabled) return
    event.preventDefault()
    event.stopPropagation()
    move(index, index + (event.key === 'ArrowUp' ? -1 : 1), undefined)
  }
  const slots = Math.max(items.length, Math.min(fixed.length, bare || required || items.length > 0 ? fixed.length : 0))
  const rows = Array.from({ length: Math.min(slots, shown) }, (_, index) => index)
  return (
    <div role="group" aria-labelledby={`${id}-label`} className={css.list} data-pointer={pointer} id={id}>
      <div className={bare ? 'visually-hidden' : css.head}>
        <span id={`${id}-label`} className={css.label}>
          {revealed(label)}
        </span>
        <Need required={required} />
        {items.length > 0 && <span className={css.count}>{counted(items.length, 'item')}</span>}
      </div>
      <Hint pointer={pointer} hint={hint} />
      <Wrongs pointer={pointer} />
      {rows.length > 0 && (
        <ol className={css.items}>
          {rows.map((index) => {
            const key = known[index] ?? `slot-${index}`
            const part = partOf(index)
            const item = items[index]
            const isFixed = index < fixed.length
            const isBlock = ['object', 'list', 'union'].includes(shapeOf(model, part, item).kind)
            const title = isFixed ? (titleOf(part) ?? `${one} ${index + 1}`) : `${one} ${index + 1}`
            return (
              <li key={key} className={isBlock ? css.block : css.line} onKeyDown={pressed(index)}>
                <div className={css.itemHead}>
                  <span className={css.index}>{isFixed ? revealed(title) : index + 1}</span>
                  {isBlock && <span className={css.summary}>{revealed(summaryOf(item) ?? '')}</span>}
                </div>
                <div className={css.itemBody}>
                  <Node
                    schema={part}
                    value={item}
                    onChange={(next) => onChange(filled(items, index).toSpliced(index, 1, next ?? null))}
                    pointer={child(pointer, index)}
                    label={title}
                    required
                    depth={depth + 1}
                    bare
                  />
                </div>
                {!isFixed && (
                  <div className={css.itemTools}>
                    <Button
                      id={`${id}-up-${key}`}
                      kind="quiet"
                      size="small"
                      aria-label={`Move ${title} up`}
                      isDisabled={disabled || index === fixed.length}
                      icon={<ArrowUp aria-hidden="true" />}
                      onPress={() => move(index, index - 1, 'up')}
                    />
                    <Button
                      id={`${id}-down-${key}`}
                      kind="quiet"
                      size="small"
                      aria-label={`Move ${title} down`}
                      isDisabled={disabled || index === items.length - 1}
                      icon={<ArrowDown aria-hidden="true" />}
                      onPress={() => move(index, index + 1, 'down')}
                    />
                    <Button
                      id={`${id}-remove-${key}`}
                      kind="quiet"
                      size="small"
                      aria-label={`Remove ${title}`}
                      isDisabled={disabled}
                      icon={<Trash2 aria-hidden="true" />}
                      onPress={() => remove(index)}
                    />
                  </div>
                )}
              </li>
            )
          })}
        </ol>
      )}
      {slots > shown && (
        <button type="button" className={css.link} onClick={() => setShown(shown + SHOWN_MAX)}>
          {slots - shown} more
        </button>
      )}
      {isFree && (
        <div className={css.add}>
          <Button
            id={`${id}-add`}
            size="small"
            icon={<Plus aria-hidden="true" />}
            isDisabled={disabled}
            disabledReason={items.length >= max ? `${max} is the most` : undefined}
            onPress={add}
          >
            Add {one.toLowerCase() === 'item' ? 'item' : one}
          </Button>
          {items.length > 0 && items.length < min && <span className={css.need}>{min - items.length} more needed</span>}
        </div>
      )}
      {!isFree && items.length === 0 && !required && !bare && (
        <div className={css.add}>
          <Button
            size="small"
            icon={<Plus aria-hidden="true" />}
            isDisabled={disabled}
            onPress={() =>
              change(
                fixed.map((part) => blankOf(model, asSchema(part))),
                fixed.map(newKey),
              )
            }
          >
            Add {label}
          </Button>
        </div>
      )}
      <p role="status" className="visually-hidden">
        {said}
      </p>
    </div>
  )
}

/** A tuple may be filled from its end: what lies before becomes null until it is filled. */
function filled(items: readonly Json[], index: number): readonly Json[] {
  return items.length >= index ? items : [...items, ...Array.from({ length: index - items.length }, () => null)]
}

function asSchema(part: Json | undefined): JsonSchema | undefined {
  return isObject(part) || typeof part === 'boolean' ? part : undefined
}

function titleOf(part: JsonSchema): string | undefined {
  return isObject(part) && typeof part.title === 'string' ? part.title : undefined
}

/** What one of them is called: the item's own title, else the list's name without its plural. */
function itemTitle(items: Json | undefined, label: string): string {
  const titled = isObject(items) && typeof items.title === 'string' ? items.title : undefined
  const reference = isObject(items) && typeof items.$ref === 'string' ? items.$ref.split('/').at(-1) : undefined
  if (titled) return titled
  if (reference && reference !== '#') return humanised(reference)
  return /[^s]s$/.test(label) && label.length > 3 && label.length < 30 ? label.slice(0, -1) : 'Item'
}
