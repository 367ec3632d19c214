// Using a tool: its form, what will happen, and what came of it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Play, TestTube } from 'lucide-react'
import { useMemo, useRef, useState } from 'react'
import type { Schemas } from '../../../api/client'
import type { Finding } from '../../../api/errors'
import { may, useMe } from '../../../app/session'
import { SchemaForm } from '../../../form/SchemaForm'
import { initialValue, type Json, prune, validate } from '../../../form/schema'
import { Button } from '../../../ui/Button'
import { Problem } from '../../../ui/Problem'
import { Prose } from '../../../ui/Prose'
import { SkeletonRows } from '../../../ui/Skeleton'
import type { Tool } from '../definition'
import { act, reference, toolQueries } from '../queries'
import { Before } from './Before'
import { useLiveCall } from './live'
import { Outcome } from './Outcome'
import css from './Run.module.css'
import { findingsOfError, findingsOfProblem } from './refusal'

export interface RunPlace {
  /** The version that the address asks for. */
  version?: string | undefined
  /** A call whose input fills the form. */
  again?: string | undefined
  /** An example, by its number, that fills the form. */
  example?: string | undefined
  /** The call that is shown. */
  call?: string | undefined
}

export function RunTab({ tool, place, show }: { tool: Tool; place: RunPlace; show: (call: string) => void }) {
  const earlier = useQuery(toolQueries.call(place.again ?? ''))
  if (place.again && earlier.isPending) return <SkeletonRows rows={4} />
  const example = place.example ? tool.examples[Number(place.example) - 1] : undefined
  const begins = place.again && earlier.data ? (earlier.data.input as Json) : (example?.input ?? undefined)
  // Another version, example or call begins another form.
  const key = [tool.name, tool.version, place.again, place.example].join(' ')
  return (
    <Bench key={key} tool={tool} begins={begins} place={place} show={show}>
      {place.again && earlier.isError && <Problem error={earlier.error} retry={() => void earlier.refetch()} />}
    </Bench>
  )
}

function Bench({
  tool,
  begins,
  place,
  show,
  children,
}: {
  tool: Tool
  begins: Json | undefined
  place: RunPlace
  show: (call: string) => void
  children: React.ReactNode
}) {
  const me = useMe()
  const client = useQueryClient()
  const [value, setValue] = useState<Json>(() => begins ?? initialValue(tool.inputSchema))
  const [advice, setAdvice] = useState<readonly Finding[]>([])
  const requestId = useRef(crypto.randomUUID())
  const name = reference(tool.name, place.version)
  const live = useLiveCall(place.call ?? '')
  const submit = useMutation({
    mutationFn: (mode: Schemas['Mode']) =>
      act.call({ tool: name, input: prune(value) as Record<string, never>, requestId: requestId.current, mode }),
    onSuccess: ({ id }) => {
      // Answered: the next press is another call. Unanswered, the same press again is the same call.
      requestId.current = crypto.randomUUID()
      show(id)
      void client.invalidateQueries({ queryKey: ['calls'] })
    },
  })
  const refused = submit.error
    ? findingsOfProblem(submit.error)
    : live.call && sameInput(live.call.input, prune(value))
      ? findingsOfError(live.call.error)
      : []
  const findings = advice.length > 0 ? advice : refused
  const off = offReason(tool, may(me, 'calls.create'))
  const hasFields = useMemo(() => takesInput(tool.inputSchema), [tool.inputSchema])

  const run = (mode: Schemas['Mode']) => {
    const found = validate(tool.inputSchema, prune(value))
    setAdvice(found)
    if (found.length === 0) submit.mutate(mode)
    else focusFirst()
  }

  return (
    <div className={css.bench}>
      <form
        className={css.form}
        aria-label={`Run ${tool.title}`}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          if (off === undefined && !submit.isPending) run('execute')
        }}
      >
        <p className={css.purpose}>
          <Prose text={tool.description} />
        </p>
        {children}
        {hasFields ? (
          <SchemaForm
            schema={tool.inputSchema}
            value={value}
            onChange={(next) => {
              setValue(next)
              setAdvice([])
            }}
            findings={findings}
            disabled={submit.isPending}
            id="input"
          />
        ) : (
          <p className={css.quiet}>It takes no input.</p>
        )}
        {submit.error && <Problem error={submit.error} retry={() => run('execute')} />}
        <div className={css.actions}>
          <Button
            kind="primary"
            type="submit"
            icon={<Play aria-hidden="true" />}
            isPending={submit.isPending}
            disabledReason={off}
          >
            {tool.asks ? 'Run, then confirm' : 'Run'}
          </Button>
          <Button
            icon={<TestTube aria-hidden="true" />}
            disabledReason={off}
            isPending={submit.isPending}
            onPress={() => run('dry_run')}
          >
            Dry run
          </Button>
          {off !== undefined && <span className={css.quiet}>{off}</span>}
          {findings.length > 0 && (
            <span role="alert" className={css.found}>
              {findings.length === 1 ? 'One field needs another look.' : `${findings.length} fields need another look.`}
            </span>
          )}
        </div>
      </form>
      <div className={css.side}>
        {place.call ? (
          <Outcome tool={tool} live={live} runAgain={off === undefined ? () => run('execute') : undefined} />
        ) : (
          <Before tool={tool} reference={name} />
        )}
      </div>
    </div>
  )
}

function offReason(tool: Tool, mayCall: boolean): string | undefined {
  if (!mayCall) return 'Calling needs the permission calls.create, which the role member has.'
  if (tool.state === 'blocked') return 'This version is blocked: no call of it runs.'
  if (!tool.enabled) return 'It is switched off in this tenant.'
  if (tool.stopped) return tool.stopped
  return undefined
}

function takesInput(schema: Tool['inputSchema']): boolean {
  if (typeof schema === 'boolean') return schema
  const { properties, additionalProperties } = schema
  const named = typeof properties === 'object' && properties !== null ? Object.keys(properties).length : 0
  return named > 0 || additionalProperties !== false
}

/** Whether a call was made with what the form holds now, so that its refusal still speaks of the form. */
function sameInput(sent: unknown, held: Json): boolean {
  return canonical(sent) === canonical(held) || isWithin(held, sent)
}

// The server fills in defaults: what is in the form must be in what it took, not the other way round.
function isWithin(held: Json, sent: unknown): boolean {
  if (typeof held !== 'object' || held === null || Array.isArray(held)) return canonical(held) === canonical(sent)
  if (typeof sent !== 'object' || sent === null) return false
  return Object.entries(held).every(([name, value]) => isWithin(value, (sent as Record<string, unknown>)[name]))
}

function canonical(value: unknown): string {
  return JSON.stringify(value) ?? ''
}

function focusFirst() {
  // After the findings are shown.
  requestAnimationFrame(() => document.querySelector<HTMLElement>('form [aria-invalid="true"]')?.focus())
}
