// Members whose names the person chooses, and members that the schema does not know: both stay in sight.
import { Plus, Trash2 } from 'lucide-react'
import { useId, useState } from 'react'
import { revealed } from '../lib/hidden'
import { Button } from '../ui/Button'
import { type NodeProps, useForm } from './context'
import css from './Form.module.css'
import { child, isObject, type Json, withMember } from './json'
import { Node } from './Node'
import { blankOf, isOpen, patternPart, type Shape } from './shape'

const SHOWN_MAX = 50

export function Members({
  shape: { schema },
  known,
  value,
  onChange,
  pointer,
  depth,
}: Pick<NodeProps, 'value' | 'onChange' | 'pointer' | 'depth'> & { shape: Shape; known: readonly string[] }) {
  const { model, disabled } = useForm()
  const [shown, setShown] = useState(SHOWN_MAX)
  const names = Object.keys(isObject(value) ? value : {}).filter((name) => !known.includes(name))
  const open = isOpen(schema)
  if (names.length === 0 && !open) return null
  const add = (name: string) => onChange(withMember(value, name, blankOf(model, patternPart(model, schema, name))))
  return (
    <div className={css.members}>
      {known.length > 0 && names.length > 0 && (
        <p className={css.sub}>{open ? 'Further members' : 'Not in the schema'}</p>
      )}
      {names.slice(0, shown).map((name) => (
        <Member
          key={name}
          name={name}
          part={patternPart(model, schema, name)}
          value={isObject(value) ? value[name] : undefined}
          onChange={(next) => onChange(withMember(value, name, next ?? null))}
          onRemove={() => onChange(withMember(value, name, undefined))}
          pointer={child(pointer, name)}
          depth={depth}
        />
      ))}
      {names.length > shown && (
        <button type="button" className={css.link} onClick={() => setShown(shown + SHOWN_MAX)}>
          {names.length - shown} more
        </button>
      )}
      {open && !disabled && <NewMember taken={[...known, ...names]} allows={(name) => allows(name)} onAdd={add} />}
    </div>
  )

  function allows(name: string): string | undefined {
    if (patternPart(model, schema, name) === undefined) return 'No member of this name is allowed.'
    const rule = schema.propertyNames
    if (isObject(rule) && model.fits(name, rule) === false) return 'This name does not have the form that is asked for.'
    return undefined
  }
}

function Member({
  name,
  part,
  value,
  onChange,
  onRemove,
  pointer,
  depth,
}: {
  name: string
  part: NodeProps['schema'] | undefined
  value: Json | undefined
  onChange: (value: Json | undefined) => void
  onRemove: () => void
  pointer: string
  depth: number
}) {
  const { disabled } = useForm()
  return (
    <div className={css.member}>
      <code className={css.memberName}>{revealed(name)}</code>
      <Node
        schema={part ?? true}
        value={value}
        onChange={onChange}
        pointer={pointer}
        label={name}
        required
        depth={depth + 1}
        bare
      />
      <Button
        kind="quiet"
        size="small"
        isDisabled={disabled}
        aria-label={`Remove ${name}`}
        icon={<Trash2 aria-hidden="true" />}
        onPress={onRemove}
      />
    </div>
  )
}

function NewMember({
  taken,
  allows,
  onAdd,
}: {
  taken: readonly string[]
  allows: (name: string) => string | undefined
  onAdd: (name: string) => void
}) {
  const id = useId()
  const [name, setName] = useState('')
  const [refusal, setRefusal] = useState('')
  const add = () => {
    const wrong =
      name === ''
        ? 'Give it a name first.'
        : taken.includes(name)
          ? 'There is a member of this name already.'
          : allows(name)
    setRefusal(wrong ?? '')
    if (wrong !== undefined) return
    onAdd(name)
    setName('')
  }
  return (
    <div className={css.newMember}>
      <label htmlFor={id} className="visually-hidden">
        Name of a new member
      </label>
      <input
        id={id}
        className={`${css.input} ${css.mono}`}
        placeholder="name"
        autoComplete="off"
        value={name}
        aria-describedby={`${id}-refusal`}
        aria-invalid={refusal !== '' || undefined}
        onChange={(event) => {
          setName(event.currentTarget.value)
          setRefusal('')
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter') return
          event.preventDefault()
          add()
        }}
      />
      <Button size="small" icon={<Plus aria-hidden="true" />} onPress={add}>
        Add member
      </Button>
      <p id={`${id}-refusal`} role="status" className={refusal === '' ? 'visually-hidden' : css.wrong}>
        {refusal}
      </p>
    </div>
  )
}
