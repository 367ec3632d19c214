// A call of which nobody knows how it ended: a person who found out says so.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, type Schemas, taken } from '../../api/client'
import { asApiError } from '../../api/errors'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { Time } from '../../ui/Time'
import css from './Block.module.css'

export function Settle({ call }: { call: Schemas['CallSummary'] }) {
  const client = useQueryClient()
  const [isOpen, setOpen] = useState(false)
  const [reason, setReason] = useState('')
  const settle = useMutation({
    mutationFn: (status: 'completed' | 'failed') =>
      taken(
        api.POST('/api/v1/calls/{call}/settle', {
          params: { path: { call: call.id } },
          body: { status, reason: reason.trim() },
        }),
      ),
    onSuccess: (_, status) => {
      notify(`${call.tool_key}: settled as ${status}`)
      for (const kind of ['home', 'calls', 'runs']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
  const off = settle.isPending ? 'It is being sent' : reason.trim() === '' ? 'Say how you know first' : undefined
  const problem = settle.error ? asApiError(settle.error) : undefined
  const atReason = problem?.problem?.pointer === '/reason'
  return (
    <>
      <div className={css.row}>
        <Badge tone="warn" shape="diamond">
          outcome unknown
        </Badge>
        <Link {...to.call(call.id)} className={css.name}>
          <code>{revealed(call.tool_key)}</code>
        </Link>
        <span className={css.more}>
          <Time at={call.created_at} />
        </span>
        <Button size="small" aria-expanded={isOpen} onPress={() => setOpen(!isOpen)}>
          Settle…
        </Button>
      </div>
      {isOpen && (
        <div className={css.form}>
          <TextField
            label="How do you know?"
            hint="It may have happened or not: look where it would show. This is kept in the log with your name."
            value={reason}
            onChange={setReason}
            error={atReason ? problem?.message : undefined}
            required
            autoFocus
          />
          {problem && !atReason && <Problem error={problem} />}
          <div className={css.actions}>
            <Button disabledReason={off} onPress={() => settle.mutate('completed')}>
              It happened
            </Button>
            <Button kind="danger" disabledReason={off} onPress={() => settle.mutate('failed')}>
              It did not happen
            </Button>
          </div>
        </div>
      )}
    </>
  )
}
