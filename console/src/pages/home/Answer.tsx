// A question of a run, answered where it is read.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense, useMemo, useState } from 'react'
import { api, type Schemas, taken } from '../../api/client'
import { asApiError, type Finding } from '../../api/errors'
import type { Json, JsonSchema } from '../../form/json'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { Time } from '../../ui/Time'
import css from './Block.module.css'

// Only who answers loads the form.
const SchemaForm = lazy(async () => ({ default: (await import('../../form/SchemaForm')).SchemaForm }))

const NO_FINDINGS: readonly Finding[] = []

export function Answer({ question }: { question: Schemas['Question'] }) {
  const client = useQueryClient()
  const [isOpen, setOpen] = useState(false)
  const [value, setValue] = useState<Json>({})
  const [blocked, setBlocked] = useState<string>()
  const answer = useMutation({
    mutationFn: async () => {
      const { prune } = await import('../../form/schema')
      const body = { answer: prune(value, schema) } as Schemas['NewAnswer']
      return taken(api.POST('/api/v1/inputs/{input}/answer', { params: { path: { input: question.id } }, body }))
    },
    onSuccess: () => {
      notify('Answered')
      for (const kind of ['home', 'runs']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
  const schema = question.schema as unknown as JsonSchema
  const problem = useMemo(() => (answer.error ? asApiError(answer.error) : undefined), [answer.error])
  const findings = useMemo(
    () =>
      problem?.findings.map(({ pointer, message }) => ({
        pointer: pointer.replace(/^\/answer(?=\/|$)/, ''),
        message,
      })) ?? NO_FINDINGS,
    [problem],
  )
  const begin = async () => {
    if (!isOpen) setValue((await import('../../form/schema')).initialValue(schema))
    setOpen(!isOpen)
  }
  return (
    <>
      <div className={css.row}>
        <Badge tone="info" shape="ring">
          answer
        </Badge>
        <Link {...to.run(question.run_id)} className={css.name}>
          {revealed(question.title)}
        </Link>
        <span className={css.more}>
          {revealed(question.asked_by_name ?? '')}, ends <Time at={question.expires_at} />
        </span>
        <Button size="small" aria-expanded={isOpen} onPress={() => void begin()}>
          Answer…
        </Button>
      </div>
      {isOpen && (
        <div className={css.form}>
          {question.instructions && <p>{revealed(question.instructions)}</p>}
          <Suspense>
            <SchemaForm
              schema={schema}
              value={value}
              onChange={setValue}
              findings={findings}
              onBlocked={setBlocked}
              id={`answer-${question.id}`}
            />
          </Suspense>
          {problem && <Problem error={problem} />}
          <div className={css.actions}>
            <Button
              kind="primary"
              disabledReason={answer.isPending ? 'It is being sent' : blocked}
              onPress={() => answer.mutate()}
            >
              Send the answer
            </Button>
          </div>
        </div>
      )}
    </>
  )
}
