// One of several shapes: choose which, then fill it in. What was typed for another comes back with it.
import { useRef, useState } from 'react'
import { ChoiceField } from './ChoiceField'
import { idOf, type NodeProps, useForm } from './context'
import css from './Form.module.css'
import { Frame, Wrongs } from './Frame'
import { isObject, type Json, type JsonObject, member, same } from './json'
import { effective } from './model'
import { Node } from './Node'
import { type Alternative, blankOf, chosenOf, discriminatorsOf, likeness, type Shape } from './shape'

export function UnionNode({ shape, ...props }: NodeProps & { shape: Shape }) {
  const { value, onChange, pointer, label, required, bare = false, depth, name } = props
  const { model, id: form } = useForm()
  const { alternatives, nullable, schema } = shape
  const [picked, setPicked] = useState<number>()
  const typed = useRef(new Map<number, Json>())
  // A number that was cleared is null for a while: the choice outlives it.
  const isEmpty = value === undefined || (value === null && nullable && picked === undefined)
  const pick = picked === undefined ? undefined : alternatives[picked]
  // The choice holds while the value can be of it; a value from elsewhere speaks for itself.
  const isHeld =
    pick !== undefined && !isEmpty && (value === null || likeness(model, pick.part, pick.schema, value) > 0)
  const chosen = isEmpty ? -1 : isHeld && picked !== undefined ? picked : chosenOf(model, alternatives, value)
  const alternative = alternatives[chosen]
  const hint = typeof schema.description === 'string' ? schema.description : alternative?.description
  const choose = (next: Json | undefined) => {
    if (chosen >= 0 && value !== undefined) typed.current.set(chosen, value)
    const to = typeof next === 'number' ? alternatives[next] : undefined
    if (typeof next !== 'number' || !to) {
      setPicked(undefined)
      onChange(bare || (nullable && required) ? null : undefined)
      return
    }
    setPicked(next)
    onChange(carried(alternative, to, value, typed.current.get(next)))
  }
  const carried = (
    from: Alternative | undefined,
    to: Alternative,
    now: Json | undefined,
    before: Json | undefined,
  ): Json => {
    const blank = before ?? blankOf(model, to.schema)
    if (!isObject(blank) || !isObject(now)) return blank
    return { ...sharedMembers(from, to, now), ...blank }
  }
  /** What both alternatives know, and what neither knows, stays. */
  const sharedMembers = (from: Alternative | undefined, to: Alternative, now: JsonObject): JsonObject => {
    const before = propertiesOf(from)
    const after = propertiesOf(to)
    const tags = new Set(discriminatorsOf(effective(model, to.schema, undefined)).map(([tag]) => tag))
    return Object.fromEntries(
      Object.entries(now).filter(([key]) => {
        if (tags.has(key)) return false
        if (!Object.hasOwn(before, key)) return true
        return Object.hasOwn(after, key) && same(member(before, key), member(after, key))
      }),
    )
  }
  const propertiesOf = (one: Alternative | undefined): JsonObject => {
    const whole = one ? effective(model, one.schema, undefined) : {}
    return isObject(whole.properties) ? whole.properties : {}
  }
  const id = idOf(form, pointer)
  return (
    <div className={css.union} data-pointer={pointer}>
      <Frame pointer={`${pointer}#kind`} label={label} required={required} hint={hint} bare={bare} as="span">
        <ChoiceField
          choices={alternatives.map(({ title, description }, index) => ({
            value: index,
            label: title,
            ...(description === undefined ? {} : { description }),
          }))}
          value={chosen === -1 ? undefined : chosen}
          onChange={choose}
          empty={undefined}
          pointer={`${pointer}#kind`}
          required={required && !nullable}
          hasHint={hint !== undefined}
        />
      </Frame>
      <div className={isObject(value) ? css.inner : undefined} id={chosen === -1 ? id : undefined}>
        {alternative ? (
          <Node
            key={chosen}
            schema={alternative.schema}
            value={value}
            onChange={(next) => {
              setPicked(chosen)
              onChange(next)
            }}
            pointer={pointer}
            {...(name === undefined ? {} : { name })}
            label={label}
            required
            depth={depth + 1}
            bare
            chosen
          />
        ) : (
          <>
            {!isEmpty && <Node {...props} schema={true} required bare />}
            {isEmpty && <Wrongs pointer={pointer} />}
          </>
        )}
      </div>
    </div>
  )
}
