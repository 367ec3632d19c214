// Approve another input: by form or as text, with the difference in sight before it is sent.
import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { type ApiError, asApiError, type Finding } from '../../api/errors'
import type { Json, JsonSchema } from '../../form/json'
import { SchemaForm } from '../../form/SchemaForm'
import { prune, serverFindings } from '../../form/schema'
import { canonical } from '../../lib/canonical'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Drawer } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import type { Card } from './card'
import { Difference } from './Difference'
import css from './dialogs.module.css'
import { unseenIn, withoutUnseen } from './layout'
import { toolQuery } from './queries'

const NO_FINDINGS: readonly Finding[] = []

export function EditDialog({
  card,
  failure,
  sending,
  onClose,
  onApprove,
}: {
  card: Card
  failure: unknown
  sending: boolean
  onClose: () => void
  onApprove: (input: Json, reason: string | undefined) => void
}) {
  const tool = useQuery(toolQuery(card.tool))
  const [value, setValue] = useState<Json>(card.input as Json)
  const [reason, setReason] = useState('')
  const [blocked, setBlocked] = useState<string>()
  const problem = useMemo(() => (failure ? asApiError(failure) : undefined), [failure])
  const findings = useMemo(() => (problem ? findingsOf(problem) : NO_FINDINGS), [problem])
  const schema = schemaOf(tool.data)
  const input = useMemo(() => prune(value, schema), [value, schema])
  const unseen = useMemo(() => unseenIn(input), [input])
  const isChanged = canonical(input) !== canonical(card.input)
  const off = sending ? 'It is being sent' : (blocked ?? (isChanged ? undefined : 'Nothing is changed'))
  const send = () => {
    if (off === undefined) onApprove(input, reason.trim() || undefined)
  }
  useSubmitKey(send, true)
  return (
    <Drawer title={`Edit the arguments of ${card.tool}`} isOpen onClose={onClose}>
      <div className={css.drawer}>
        <div className={css.top}>
          <h2>Edit, then approve</h2>
          <p>What you send is checked like a new call and runs instead. The proposal is kept beside it.</p>
        </div>
        <div className={css.body}>
          {tool.isPending ? (
            <SkeletonRows rows={4} />
          ) : (
            <SchemaForm
              schema={schema}
              value={value}
              onChange={setValue}
              findings={findings}
              onBlocked={setBlocked}
              id="edit"
            />
          )}
          {unseen.length > 0 && (
            <div className={css.unseen} role="status">
              <p>
                It still holds characters that cannot be seen: <code>{unseen.join(', ')}</code>.
              </p>
              <Button size="small" onPress={() => setValue(withoutUnseen(value))}>
                Take them out
              </Button>
            </div>
          )}
          {problem && findings.length === 0 && <Problem error={problem} />}
          <section aria-live="polite">
            <h3 className={css.heading}>What changes</h3>
            <Difference before={card.input} after={input} />
          </section>
          <TextField label="Why (optional)" value={reason} onChange={setReason} />
        </div>
        <div className={css.bottom}>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" disabledReason={off} keys={SUBMIT_KEYS} onPress={send}>
            Approve what I wrote
          </Button>
        </div>
      </div>
    </Drawer>
  )
}

/** At the members that break the tool's schema, where the server names them. */
function findingsOf(problem: ApiError): readonly Finding[] {
  const listed = serverFindings(problem.problem?.details)
  return listed.length > 0 ? listed : problem.findings.map(inInput)
}

/** The server speaks of the body that was sent; the form, of what is in its `input`. */
function inInput({ pointer, message }: Finding): Finding {
  return { pointer: pointer.replace(/^\/input(?=\/|$)/, ''), message }
}

/** Of a tool that is gone nothing is known: anything goes, and the server judges. */
function schemaOf(tool: unknown): JsonSchema {
  if (typeof tool !== 'object' || tool === null || !('input_schema' in tool)) return true
  const { input_schema: schema } = tool
  return typeof schema === 'object' && schema !== null ? (schema as JsonSchema) : true
}
