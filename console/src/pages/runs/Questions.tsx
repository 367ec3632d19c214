// What a run asks people, and the answer: it goes on once somebody has given one.
import { MessageCircleQuestion } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { asApiError } from '../../api/errors'
import type { Json, JsonSchema } from '../../form/json'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { answerQuestion, type Question, useRunChange } from './queries'
import css from './RunPage.module.css'

// Most runs ask nothing.
const SchemaForm = lazy(async () => ({ default: (await import('../../form/SchemaForm')).SchemaForm }))

export function Questions({ questions }: { questions: readonly Question[] }) {
  const [answering, setAnswering] = useState<Question>()
  const open = questions.filter(({ state }) => state === 'open')
  if (open.length === 0 && !answering) return null
  return (
    <ul className={css.questions} aria-label="Questions">
      {open.map((question) => (
        <li key={question.id}>
          <MessageCircleQuestion aria-hidden="true" />
          <span className={css.question}>
            <b>{revealed(question.title)}</b>
            <span className={css.quiet}>
              asked by {revealed(question.asked_by_name ?? question.asked_by)}, until <Time at={question.expires_at} />
            </span>
          </span>
          <Button kind="primary" onPress={() => setAnswering(question)}>
            Answer
          </Button>
        </li>
      ))}
      {answering && <AnswerDialog question={answering} onClose={() => setAnswering(undefined)} />}
    </ul>
  )
}

export function AnswerDialog({ question, onClose }: { question: Question; onClose: () => void }) {
  const [value, setValue] = useState<Json>({})
  const [blocked, setBlocked] = useState<string>()
  const send = useRunChange(answerQuestion)
  const error = send.isError ? asApiError(send.error) : undefined
  const findings = (error?.findings ?? []).map(({ pointer, message }) => ({
    pointer: pointer.replace(/^\/answer/, ''),
    message,
  }))
  return (
    <Dialog
      title={question.title}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Not now</Button>
          <Button
            kind="primary"
            isPending={send.isPending}
            {...(blocked === undefined ? {} : { disabledReason: blocked })}
            onPress={() =>
              send.mutate(
                { id: question.id, answer: value },
                {
                  onSuccess: () => {
                    notify('Answered. The run goes on.')
                    onClose()
                  },
                },
              )
            }
          >
            Answer
          </Button>
        </>
      }
    >
      {question.instructions && <p>{revealed(question.instructions)}</p>}
      <Suspense fallback={<SkeletonRows rows={3} />}>
        <SchemaForm
          schema={question.schema as unknown as JsonSchema}
          value={value}
          onChange={setValue}
          findings={findings}
          onBlocked={setBlocked}
        />
      </Suspense>
      {error && findings.length === 0 && <Problem error={error} />}
    </Dialog>
  )
}
