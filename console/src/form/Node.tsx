// One place of the value: the field that its schema asks for.
import { lazy, Suspense } from 'react'
import { ChoiceField, ChoicesField } from './ChoiceField'
import { type NodeProps, useForm } from './context'
import { isReadableDate } from './dates'
import { FileField } from './FileField'
import css from './Form.module.css'
import { Foreign, Frame, useControl } from './Frame'
import { hintOf } from './hints'
import { JsonField } from './JsonField'
import type { Json } from './json'
import { same } from './json'
import { ListNode } from './ListNode'
import { ObjectNode } from './ObjectNode'
import { isLongName, isShortName, isShowable, type Shape, shapeOf } from './shape'
import { NumberField, SecretField, TextField } from './TextFields'
import { UnionNode } from './UnionNode'
import { valueWords } from './words'

const DateField = lazy(async () => ({ default: (await import('./DateField')).DateField }))

/** Deeper than this the value is edited as JSON: nobody finds their way, and a schema may go on for ever. */
const DEPTH_MAX = 12

const YES_NO = [
  { value: true, label: 'Yes' },
  { value: false, label: 'No' },
]

export function Node(props: NodeProps) {
  const { model } = useForm()
  const shape = shapeOf(model, props.schema, props.value)
  if (props.depth > DEPTH_MAX || !isShowable(shape, props.value)) {
    return <OddNode {...props} shape={shape} tooDeep={props.depth > DEPTH_MAX} />
  }
  if (shape.kind === 'object') return <ObjectNode {...props} shape={shape} />
  if (shape.kind === 'list') return <ListNode {...props} shape={shape} />
  if (shape.kind === 'union') return <UnionNode {...props} shape={shape} />
  return <Scalar {...props} shape={shape} />
}

/** What an empty field stands for. */
function emptyOf({ bare, required }: NodeProps, { kind, nullable, schema }: Shape): Json | undefined {
  // In a list something must stand there.
  if (bare) return ['text', 'long', 'secret'].includes(kind) && !nullable ? '' : null
  return nullable && (required || schema.default === null) ? null : undefined
}

function Scalar({ shape, ...props }: NodeProps & { shape: Shape }) {
  const { value, onChange, pointer, name = '', required, label, bare = false } = props
  const { schema, choices, nullable } = shape
  const kind =
    shape.kind === 'text' && isLongName(name, schema)
      ? 'long'
      : shape.kind === 'long' && isShortName(name, schema, value)
        ? 'text'
        : shape.kind
  const hint = hintOf(schema, kind)
  const empty = emptyOf(props, shape)
  const shared = { schema, value, onChange, empty, pointer, required, hasHint: hint !== undefined }
  const frame = { pointer, label, required, hint, bare }
  switch (kind) {
    case 'long':
      return (
        <Frame {...frame}>
          <TextField {...shared} long />
        </Frame>
      )
    case 'secret':
      return (
        <Frame {...frame}>
          <SecretField {...shared} />
        </Frame>
      )
    case 'number':
      return (
        <Frame {...frame}>
          <NumberField {...shared} />
        </Frame>
      )
    case 'choice':
      return (
        <Frame {...frame} as="span">
          <ChoiceField {...shared} choices={choices} nullable={nullable} />
        </Frame>
      )
    case 'choices':
      return (
        <Frame {...frame} as="span">
          <ChoicesField {...shared} choices={choices} />
        </Frame>
      )
    case 'boolean':
      // With a default, off means "no"; without one, nothing chosen is something else than "no".
      if (typeof schema.default === 'boolean' && !nullable) return <Checkbox {...props} hint={hint} />
      return (
        <Frame {...frame} as="span">
          <ChoiceField {...shared} choices={YES_NO} nullable={nullable} />
        </Frame>
      )
    case 'date':
    case 'date-time':
    case 'time': {
      const held = typeof value === 'string' ? value : undefined
      const isPlain = schema.readOnly === true || (held !== undefined && !isReadableDate(kind, held))
      const plain = <TextField {...shared} />
      return (
        <Frame {...frame} as={isPlain ? 'label' : 'span'}>
          {isPlain ? (
            plain
          ) : (
            <Suspense fallback={plain}>
              <DateField
                {...shared}
                kind={kind}
                label={label}
                value={held}
                onChange={(date) => onChange(date ?? empty)}
              />
            </Suspense>
          )}
        </Frame>
      )
    }
    case 'file':
      return (
        <Frame {...frame} as="span">
          <FileField {...shared} label={label} onChange={(data) => onChange(data ?? empty)} />
        </Frame>
      )
    case 'const': {
      const fixed = schema.const ?? null
      const isSet = same(value, fixed)
      return (
        <Frame {...frame} as="span">
          {isSet && required ? (
            <Fixed value={fixed} />
          ) : (
            <ChoiceField {...shared} choices={[{ value: fixed, label: valueWords(fixed) }]} nullable={nullable} />
          )}
        </Frame>
      )
    }
    case 'null':
      return (
        <Frame {...frame} as="span">
          <ChoiceField {...shared} choices={[{ value: null, label: 'null' }]} />
        </Frame>
      )
    case 'any':
      return (
        <Frame {...frame}>
          <JsonField {...shared} onChange={(any) => onChange(any ?? (bare ? null : undefined))} />
        </Frame>
      )
    default:
      return (
        <Frame {...frame}>
          <TextField {...shared} />
        </Frame>
      )
  }
}

function Fixed({ value }: { value: Json }) {
  return <code className={css.fixed}>{valueWords(value)}</code>
}

function Checkbox({
  value,
  onChange,
  pointer,
  label,
  required,
  bare = false,
  hint,
}: NodeProps & { hint: string | undefined }) {
  const control = useControl(pointer, false, hint !== undefined)
  return (
    <Frame pointer={pointer} label={label} required={required} hint={hint} bare>
      <label className={css.box}>
        <input
          {...control}
          type="checkbox"
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
        <span aria-hidden="true">{bare ? 'Yes' : label}</span>
      </label>
    </Frame>
  )
}

/** What no field can show: too deep, or of another kind than the schema says. */
function OddNode({ shape, tooDeep, ...props }: NodeProps & { shape: Shape; tooDeep: boolean }) {
  const { value, onChange, pointer, label, required, bare = false } = props
  const hint = hintOf(shape.schema, shape.kind)
  const frame = { pointer, label, required, hint, bare }
  if (tooDeep) {
    return (
      <Frame {...frame}>
        <JsonField
          {...props}
          hasHint={hint !== undefined}
          onChange={(any) => onChange(any ?? (bare ? null : undefined))}
        />
      </Frame>
    )
  }
  return (
    <Frame {...frame} as="span">
      {value !== undefined && <Foreign value={value} label={label} onClear={() => onChange(emptyOf(props, shape))} />}
    </Frame>
  )
}
