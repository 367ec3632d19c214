// An object: its fields one below the other, the advanced ones folded away, members of free names below.
import { ChevronDown, ChevronRight, Plus, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { revealed } from '../lib/hidden'
import { Button } from '../ui/Button'
import { idOf, type NodeProps, useForm } from './context'
import css from './Form.module.css'
import { Hint, Need, Wrongs } from './Frame'
import { isObject, type Json, member, same, withMember } from './json'
import { Members } from './Members'
import { Node } from './Node'
import { discriminatorsOf, type Field, fieldsOf, objectInitial, type Shape } from './shape'
import { counted } from './words'

export function ObjectNode({
  schema,
  shape,
  value,
  onChange,
  pointer,
  label,
  required,
  depth,
  bare = false,
  chosen = false,
}: NodeProps & { shape: Shape }) {
  const { id: form, model, disabled } = useForm()
  const id = idOf(form, pointer)
  const hint = typeof shape.schema.description === 'string' ? shape.schema.description : undefined
  const isThere = isObject(value)
  const fields = (
    <Fields
      schema={schema}
      shape={shape}
      value={value}
      onChange={onChange}
      pointer={pointer}
      depth={depth}
      chosen={chosen}
    />
  )
  if (pointer === '') return fields
  if (bare) {
    return (
      <div data-pointer={pointer} id={id} className={css.fields}>
        <Wrongs pointer={pointer} />
        {fields}
      </div>
    )
  }
  // Not there yet: one button, so that a schema which contains itself ends somewhere.
  if (!isThere && (!required || shape.nullable)) {
    return (
      <div className={css.field} data-pointer={pointer}>
        <div className={css.head}>
          <span className={css.label}>{revealed(label)}</span>
          <Need required={required} />
        </div>
        <Hint pointer={pointer} hint={hint} />
        <div>
          <Button
            id={id}
            size="small"
            isDisabled={disabled}
            icon={<Plus aria-hidden="true" />}
            onPress={() => onChange(objectInitial(model, schema))}
          >
            Add {label}
          </Button>
        </div>
        <Wrongs pointer={pointer} />
      </div>
    )
  }
  return (
    <div
      role="group"
      className={css.group}
      data-pointer={pointer}
      id={id}
      aria-labelledby={`${id}-label`}
      aria-describedby={hint ? `${id}-hint` : undefined}
    >
      <div className={css.head}>
        <span id={`${id}-label`} className={css.label}>
          {revealed(label)}
        </span>
        <Need required={required} />
        {isThere && (!required || shape.nullable) && !disabled && (
          <span className={css.corner}>
            <Button
              kind="quiet"
              size="small"
              aria-label={`Remove ${label}`}
              icon={<Trash2 aria-hidden="true" />}
              onPress={() => onChange(shape.nullable && required ? null : undefined)}
            />
          </span>
        )}
      </div>
      <Hint pointer={pointer} hint={hint} />
      <Wrongs pointer={pointer} />
      {fields}
    </div>
  )
}

function Fields({
  schema,
  shape,
  value,
  onChange,
  pointer,
  depth,
  chosen,
}: Pick<NodeProps, 'schema' | 'value' | 'onChange' | 'pointer' | 'depth'> & { shape: Shape; chosen: boolean }) {
  const { model } = useForm()
  const fields = fieldsOf(model, schema, value, pointer)
  const tags = chosen ? discriminatorsOf(shape.schema) : []
  const isSaid = ({ name }: Field) => tags.some(([tag, fixed]) => tag === name && same(member(value, name), fixed))
  const set = (name: string) => (next: Json | undefined) => onChange(withMember(value, name, next))
  const shown = (field: Field) => (
    <Node
      key={field.name}
      schema={field.schema}
      value={member(value, field.name)}
      onChange={set(field.name)}
      pointer={field.pointer}
      name={field.name}
      label={field.label}
      required={field.required}
      depth={depth + 1}
    />
  )
  const plain = fields.filter((field) => !field.advanced && !isSaid(field))
  const advanced = fields.filter((field) => field.advanced && !isSaid(field))
  return (
    <div className={css.fields}>
      {plain.map(shown)}
      {advanced.length > 0 && (
        <Advanced fields={advanced} set={advanced.filter(({ name }) => member(value, name) !== undefined).length}>
          {() => advanced.map(shown)}
        </Advanced>
      )}
      <Members
        shape={shape}
        known={fields.map(({ name }) => name)}
        value={value}
        onChange={onChange}
        pointer={pointer}
        depth={depth}
      />
    </div>
  )
}

const NAMED_MAX = 4

/** The fields that few need: one line that says how many, and opens itself when something is wrong inside. */
function Advanced({
  fields,
  set,
  children,
}: {
  fields: readonly Field[]
  set: number
  children: () => React.ReactNode
}) {
  const { hasWithin } = useForm()
  const [isAsked, setAsked] = useState(false)
  const isWrong = fields.some(({ pointer }) => hasWithin(pointer))
  const isOpen = isAsked || isWrong
  const names = fields.slice(0, NAMED_MAX).map(({ label }) => label)
  const rest = fields.length > NAMED_MAX ? ', …' : ''
  return (
    <div className={css.advanced}>
      <button
        type="button"
        className={css.fold}
        aria-expanded={isOpen}
        onClick={() => setAsked(!isOpen)}
        disabled={isWrong && !isAsked}
      >
        {isOpen ? <ChevronDown aria-hidden="true" /> : <ChevronRight aria-hidden="true" />}
        <span>
          {counted(fields.length, 'more field')}
          {set > 0 && <span className={css.need}> {set} filled in</span>}
        </span>
        {!isOpen && <span className={css.names}>{revealed(names.join(', ') + rest)}</span>}
      </button>
      {isOpen && <div className={css.fields}>{children()}</div>}
    </div>
  )
}
