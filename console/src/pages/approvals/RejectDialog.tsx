// Rejecting needs a reason: the agent reads it.
import { type FormEvent, useState } from 'react'
import { asApiError } from '../../api/errors'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import css from './dialogs.module.css'

export function RejectDialog({
  what,
  failure,
  sending,
  onClose,
  onReject,
}: {
  what: string
  failure: unknown
  sending: boolean
  onClose: () => void
  onReject: (reason: string) => void
}) {
  const [reason, setReason] = useState('')
  const problem = failure ? asApiError(failure) : undefined
  const atReason = problem?.problem?.pointer === '/reason' ? problem.message : undefined
  const send = () => {
    if (reason.trim() !== '' && !sending) onReject(reason.trim())
  }
  useSubmitKey(send, true)
  return (
    <Dialog title={`Reject ${what}`} isOpen onClose={onClose}>
      <form
        className={css.form}
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          send()
        }}
      >
        <TextField
          label="Why"
          hint="The caller is told this, and an agent acts on it: say what would be right."
          lines={3}
          value={reason}
          onChange={setReason}
          error={atReason}
          required
          autoFocus
        />
        {problem && !atReason && <Problem error={problem} />}
        <div className={css.actions}>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            kind="danger"
            type="submit"
            keys={SUBMIT_KEYS}
            disabledReason={sending ? 'It is being sent' : reason.trim() === '' ? 'Say why first' : undefined}
          >
            Reject
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
