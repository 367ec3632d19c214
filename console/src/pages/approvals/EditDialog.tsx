// Approve another input: by form or as text, with the difference in sight before it is sent.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { asApiError } from '../../api/errors'
import type { Json, JsonSchema } from '../../form/json'
import { SchemaForm } from '../../form/SchemaForm'
import { Button } from '../../ui/Button'
import { Drawer } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { canonical, layout, lineText } from './canonical'
import type { Card } from './card'
import { Difference } from './Difference'
import css from './dialogs.module.css'
import { toolQuery } from './queries'

type Way = 'form' | 'text'

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
  const schema = schemaOf(tool.data)
  const [way, setWay] = useState<Way>('form')
  const [value, setValue] = useState<Json>(card.input as Json)
  const [text, setText] = useState(() => pretty(card.input))
  const [reason, setReason] = useState('')
  const asText = way === 'text' || schema === undefined
  const read = asText ? parsed(text) : { value }
  const problem = failure ? asApiError(failure) : undefined
  const findings = (problem?.findings ?? []).map(({ pointer, message }) => ({
    pointer: pointer.replace(/^\/input/, ''),
    message,
  }))
  const changed = read.value !== undefined && canonical(read.value) !== canonical(card.input)
  const off = sending
    ? 'It is being sent'
    : read.value === undefined
      ? 'The text is not JSON'
      : changed
        ? undefined
        : 'Nothing is changed: approve it as it is'

  const turn = (next: Way) => {
    if (next === 'text') setText(pretty(value))
    else if (read.value !== undefined) setValue(read.value)
    setWay(next)
  }

  return (
    <Drawer title={`Edit the arguments of ${card.tool}`} isOpen onClose={onClose}>
      <div className={css.drawer}>
        <div className={css.top}>
          <h2>Edit, then approve</h2>
          <p>What you send is checked like a new call and runs instead. The proposal is kept beside it.</p>
        </div>
        <div className={css.body}>
          {schema !== undefined && (
            <div className={css.ways} role="group" aria-label="How to edit">
              <Button
                size="small"
                kind={asText ? 'quiet' : 'plain'}
                aria-pressed={!asText}
                onPress={() => turn('form')}
              >
                Form
              </Button>
              <Button size="small" kind={asText ? 'plain' : 'quiet'} aria-pressed={asText} onPress={() => turn('text')}>
                JSON
              </Button>
            </div>
          )}
          {asText ? (
            <TextField
              label="Arguments, as JSON"
              mono
              lines={12}
              value={text}
              onChange={setText}
              error={read.error ?? (findings.length > 0 ? findings.map(said).join(' ') : undefined)}
            />
          ) : (
            <SchemaForm schema={schema} value={value} onChange={setValue} findings={findings} id="edit" />
          )}
          {problem && <Problem error={problem} />}
          <section aria-live="polite">
            <h3 className={css.heading}>What changes</h3>
            {read.value === undefined ? null : <Difference before={card.input} after={read.value} />}
          </section>
          <TextField label="Why (optional)" value={reason} onChange={setReason} />
        </div>
        <div className={css.bottom}>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            kind="primary"
            disabledReason={off}
            onPress={() => read.value !== undefined && onApprove(read.value, reason.trim() || undefined)}
          >
            Approve what I wrote
          </Button>
        </div>
      </div>
    </Drawer>
  )
}

function said({ pointer, message }: { pointer: string; message: string }): string {
  return pointer === '' ? message : `${pointer}: ${message}`
}

function pretty(value: unknown): string {
  // `JSON.stringify` would do, but members then stand in another order than on the card.
  const lines = layout(canonical(value))
  return lines.some(({ parts }) => parts.some(({ kind }) => kind === 'break'))
    ? JSON.stringify(value, null, 2)
    : lines.map(lineText).join('\n')
}

function parsed(text: string): { value?: Json; error?: string } {
  try {
    return { value: JSON.parse(text) as Json }
  } catch (error) {
    return { error: error instanceof Error ? `It is not JSON: ${error.message}` : 'It is not JSON' }
  }
}

function schemaOf(tool: unknown): JsonSchema | undefined {
  if (typeof tool !== 'object' || tool === null || !('input_schema' in tool)) return
  const { input_schema: schema } = tool
  return typeof schema === 'object' && schema !== null ? (schema as JsonSchema) : undefined
}
