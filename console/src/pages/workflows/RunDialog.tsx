// What a run of a workflow is begun with: a form made from its inputs.
import { useNavigate } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { asApiError } from '../../api/errors'
import type { JsonSchema } from '../../form/json'
import { SchemaForm } from '../../form/SchemaForm'
import { initialValue, type Json, type JsonObject, prune } from '../../form/schema'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Problem } from '../../ui/Problem'
import { runWorkflow, useWorkflowChange, type Workflow } from './queries'

const NOTHING: JsonSchema = { type: 'object', properties: {}, additionalProperties: false }

export function RunDialog({
  workflow,
  name,
  revision,
  onClose,
}: {
  workflow: Workflow
  name: string
  revision: number
  onClose: () => void
}) {
  const navigate = useNavigate()
  const schema = (workflow.inputs as JsonSchema | undefined) ?? NOTHING
  const [value, setValue] = useState<Json>(() => initialValue(schema))
  const [blocked, setBlocked] = useState<string>()
  const begin = useWorkflowChange(runWorkflow)
  const error = begin.isError ? asApiError(begin.error) : undefined
  // The same findings until the next answer: the form drops each as soon as its field is changed.
  const findings = useMemo(
    () =>
      (begin.isError ? asApiError(begin.error).findings : [])
        .filter(({ pointer }) => pointer.startsWith('/input'))
        .map(({ pointer, message }) => ({ pointer: pointer.replace(/^\/input/, ''), message })),
    [begin.isError, begin.error],
  )
  const send = () => {
    if (blocked !== undefined || begin.isPending) return
    begin.mutate(
      { name, revision, input: prune(value, schema) as JsonObject },
      { onSuccess: ({ run_id }) => void navigate(to.run(run_id)) },
    )
  }
  useSubmitKey(send, true)
  return (
    <Dialog
      title={`Run ${name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" keys={SUBMIT_KEYS} isPending={begin.isPending} disabledReason={blocked} onPress={send}>
            Run
          </Button>
        </>
      }
    >
      {error && findings.length === 0 && <Problem error={error} />}
      <SchemaForm
        schema={schema}
        value={value}
        onChange={setValue}
        findings={findings}
        onBlocked={setBlocked}
        id="run"
      />
    </Dialog>
  )
}
