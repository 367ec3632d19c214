// Using a tool: its form, what will happen, and what came of it.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Play, TestTube } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { Schemas } from '../../../api/client'
import { type Finding, sentence } from '../../../api/errors'
import { may, useMe } from '../../../app/session'
import { SchemaForm } from '../../../form/SchemaForm'
import { initialValue, type Json, prune, validate } from '../../../form/schema'
import { showGently } from '../../../lib/gently'
import { SUBMIT_KEYS, useSubmitKey } from '../../../lib/submitKey'
import { Button } from '../../../ui/Button'
import { Problem } from '../../../ui/Problem'
import { Prose } from '../../../ui/Prose'
import { SkeletonRows } from '../../../ui/Skeleton'
import type { Tool } from '../definition'
import { act, FINAL, reference, toolQueries } from '../queries'
import { Before } from './Before'
import { useWhyNotConfirm } from './confirming'
import { withoutDryRun, withoutDryRunValue } from './dryRun'
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
  // Whoever comes back to a call, by the address or after a reload, finds the form as it was sent.
  const [cameTo] = useState(place.call)
  const source = place.again ?? (place.example ? undefined : cameTo)
  const earlier = useQuery(toolQueries.call(source ?? ''))
  if (source && !earlier.isError && earlier.data?.id !== source) return <SkeletonRows rows={4} />
  const example = place.example ? tool.examples[Number(place.example) - 1] : undefined
  const begins = source && earlier.data ? (earlier.data.input as Json) : example?.input
  // Another version, example or call begins another form.
  const key = [tool.name, tool.version, place.again, place.example].join(' ')
  return (
    <Bench key={key} tool={tool} begins={begins} place={place} show={show}>
      {place.again && earlier.isError && <Problem error={earlier.error} retry={() => void earlier.refetch()} />}
    </Bench>
  )
}

const NO_FINDINGS: readonly Finding[] = []

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
  const schema = useMemo(() => withoutDryRun(tool.inputSchema), [tool.inputSchema])
  const [value, setValue] = useState<Json>(() =>
    begins === undefined ? initialValue(schema) : withoutDryRunValue(tool.inputSchema, begins),
  )
  const [advice, setAdvice] = useState(NO_FINDINGS)
  const [blocked, setBlocked] = useState<string>()
  const requestId = useRef(crypto.randomUUID())
  const name = reference(tool.name, place.version)
  const whyNot = useWhyNotConfirm()
  const side = useRef<HTMLDivElement>(null)
  /** The call that was made here, until what came of it was brought into sight. */
  const shownBy = useRef<string>(undefined)
  const live = useLiveCall(place.call ?? '')
  const submit = useMutation({
    mutationFn: (mode: Schemas['Mode']) =>
      act.call({ tool: name, input: prune(value) as Record<string, never>, requestId: requestId.current, mode }),
    onSuccess: ({ id }) => {
      // Answered: the next press is another call. Unanswered, the same press again is the same call.
      requestId.current = crypto.randomUUID()
      shownBy.current = id
      show(id)
      void client.invalidateQueries({ queryKey: ['calls'] })
    },
  })
  const refusal = live.call?.error
  // The same list as long as it says the same: the form leads to what is new in it.
  const refused = useMemo(
    () => (submit.error ? findingsOfProblem(submit.error) : findingsOfError(refusal)),
    [submit.error, refusal],
  )
  const findings = advice.length > 0 ? advice : submit.isPending ? NO_FINDINGS : refused
  const off = offReason(tool, may(me, 'calls.create')) ?? blocked

  // On a narrow screen it stands below the form: once it is there, and again when it has ended. What is to correct is
  // in the form, which leads there itself.
  const { call } = live
  const isFinal = call !== undefined && FINAL.has(call.status)
  const isCorrected = refused.length > 0
  useEffect(() => {
    if (call === undefined || shownBy.current !== call.id) return
    if (isFinal) shownBy.current = undefined
    if (!isCorrected) showGently(side.current)
  }, [call, isFinal, isCorrected])

  const run = (mode: Schemas['Mode']) => {
    const found = validate(tool.inputSchema, prune(value))
    setAdvice(found)
    if (found.length === 0) submit.mutate(mode)
  }
  const press = () => {
    if (off === undefined && !submit.isPending) run('execute')
  }
  useSubmitKey(press)

  return (
    <div className={css.bench}>
      <form
        className={css.form}
        aria-label={`Run ${tool.title}`}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          press()
        }}
      >
        <p className={css.purpose}>
          <Prose text={tool.description} />
        </p>
        {children}
        <SchemaForm
          schema={schema}
          value={value}
          onChange={(next) => {
            setValue(next)
            setAdvice(NO_FINDINGS)
          }}
          findings={findings}
          disabled={submit.isPending}
          id="input"
          onBlocked={setBlocked}
          nothing="It takes no input."
        />
        {submit.error && refused.length === 0 && <Problem error={submit.error} retry={() => run('execute')} />}
        <div className={css.actions}>
          <Button
            kind={live.isOpen ? 'plain' : 'primary'}
            type="submit"
            icon={<Play aria-hidden="true" />}
            isPending={submit.isPending}
            disabledReason={off}
            keys={SUBMIT_KEYS}
          >
            {!tool.asks ? 'Run' : whyNot === undefined ? 'Run, then confirm' : 'Ask to run'}
          </Button>
          <Button
            icon={<TestTube aria-hidden="true" />}
            disabledReason={off}
            isPending={submit.isPending}
            onPress={() => run('dry_run')}
          >
            Dry run
          </Button>
          {off !== undefined && (
            <span className={css.quiet}>
              <Prose text={off} />
            </span>
          )}
        </div>
      </form>
      <div ref={side} className={css.side}>
        {place.call ? (
          <Outcome
            tool={tool}
            live={live}
            toCorrect={refused.length}
            runAgain={off === undefined ? () => run('execute') : undefined}
          />
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
  if (tool.stopped) return sentence(tool.stopped)
  if (tool.whyNot) return 'This server has no runner for it.'
  return undefined
}
