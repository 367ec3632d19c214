// A form made from a JSON Schema. One JSON value is all its state: what the schema does not know stays in it.
import { type FocusEvent, lazy, Suspense, useCallback, useDeferredValue, useId, useMemo, useRef, useState } from 'react'
import { ToggleButton, ToggleButtonGroup } from 'react-aria-components'
import type { Finding } from '../api/errors'
import { FormProvider, type FormScope } from './context'
import css from './Form.module.css'
import { validate } from './findings'
import { at, isObject, type Json, type JsonSchema, same, within } from './json'
import { modelOf } from './model'
import { Node } from './Node'
import { Summary } from './Summary'
import { fieldsOf, isOpen, shapeOf } from './shape'

const JsonEditor = lazy(async () => ({ default: (await import('./JsonEditor')).JsonEditor }))

export interface SchemaFormProps {
  schema: JsonSchema
  value: Json
  onChange: (value: Json) => void
  /** What the server, or `validate`, found wrong: JSON pointers into the value. */
  findings: readonly Finding[]
  disabled?: boolean
  /** Before every element's id, so that two forms fit on a page. */
  id?: string
  /** Why the value must not be sent as it stands (text that is not JSON, a file being read); `undefined` when it may. */
  onBlocked?: (reason: string | undefined) => void
  /** What is said where the schema asks for nothing. */
  nothing?: string
}

export function SchemaForm({
  schema,
  value,
  onChange,
  findings,
  disabled = false,
  id,
  onBlocked,
  nothing = 'No input is needed.',
}: SchemaFormProps) {
  const ownId = useId()
  const form = id ?? ownId
  const model = useMemo(() => modelOf(schema), [schema])
  const [asText, setAsText] = useState(false)
  const current = useCurrentFindings(findings, value)
  const { advice, left } = useAdvice(schema, value, asText)
  const block = useBlocks(onBlocked)
  const scope = useMemo<FormScope>(() => {
    const told = [
      ...current,
      ...advice.filter(({ pointer }) => !current.some((finding) => finding.pointer === pointer)),
    ]
    return {
      model,
      id: form,
      disabled,
      messagesAt: (pointer) => told.filter((finding) => finding.pointer === pointer).map(({ message }) => message),
      hasWithin: (pointer) => told.some((finding) => within(finding.pointer, pointer)),
      block,
    }
  }, [model, form, disabled, current, advice, block])
  const shape = shapeOf(model, model.root, value)
  const isNothing =
    shape.kind === 'object' &&
    fieldsOf(model, model.root, value).length === 0 &&
    !isOpen(shape.schema) &&
    isObject(value) &&
    Object.keys(value).length === 0
  return (
    <FormProvider value={scope}>
      <div role="group" aria-label="Input" className={css.form} onBlur={left}>
        <div className={css.bar}>
          <ToggleButtonGroup
            aria-label="Fill in as"
            className={`${css.segments} ${css.switch}`}
            selectionMode="single"
            disallowEmptySelection
            selectedKeys={[asText ? 'json' : 'form']}
            onSelectionChange={(keys) => setAsText(keys.has('json'))}
          >
            <ToggleButton id="form" className={css.segment ?? ''}>
              Form
            </ToggleButton>
            <ToggleButton id="json" className={css.segment ?? ''}>
              JSON
            </ToggleButton>
          </ToggleButtonGroup>
        </div>
        <Summary findings={current} form={form} model={model} />
        {asText ? (
          <Suspense fallback={<p className={css.hint}>The editor is being loaded…</p>}>
            <JsonEditor value={value} onChange={onChange} disabled={disabled} />
          </Suspense>
        ) : isNothing ? (
          <p className={css.quiet}>{nothing}</p>
        ) : (
          <Node
            schema={model.root}
            value={value}
            onChange={(next) => onChange(next ?? (shape.kind === 'object' ? {} : null))}
            pointer=""
            label={typeof shape.schema.title === 'string' ? shape.schema.title : 'Value'}
            required
            depth={0}
          />
        )}
      </div>
    </FormProvider>
  )
}

/** A finding holds until what it speaks of has changed. */
function useCurrentFindings(findings: readonly Finding[], value: Json): readonly Finding[] {
  const [judged, setJudged] = useState({ findings, value })
  if (judged.findings !== findings) setJudged({ findings, value })
  return useMemo(() => {
    const then = judged.findings === findings ? judged.value : value
    return findings.filter(({ pointer }) => same(at(then, pointer), at(value, pointer)))
  }, [judged, findings, value])
}

const NO_ADVICE: readonly Finding[] = []

/** What this browser finds at the fields that were left: never while somebody types in one for the first time. */
function useAdvice(schema: JsonSchema, value: Json, asText: boolean) {
  const [places, setPlaces] = useState<ReadonlySet<string>>(new Set())
  const settled = useDeferredValue(value)
  const advice = useMemo(() => {
    if (places.size === 0 || asText) return NO_ADVICE
    return validate(schema, settled).filter(({ pointer }) => places.has(pointer))
  }, [schema, settled, places, asText])
  const left = useCallback((event: FocusEvent<HTMLElement>) => {
    const place = event.target
      .closest('[data-pointer]')
      ?.getAttribute('data-pointer')
      ?.replace(/#kind$/, '')
    if (place !== undefined) setPlaces((before) => (before.has(place) ? before : new Set([...before, place])))
  }, [])
  return { advice, left }
}

function useBlocks(onBlocked: ((reason: string | undefined) => void) | undefined): FormScope['block'] {
  const reasons = useRef(new Map<string, string>())
  return useCallback(
    (pointer, reason) => {
      const had = reasons.current.size > 0
      if (reason === undefined) reasons.current.delete(pointer)
      else reasons.current.set(pointer, reason)
      if (had || reason !== undefined) onBlocked?.([...reasons.current.values()][0])
    },
    [onBlocked],
  )
}
