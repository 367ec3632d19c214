// What one can do to a call: stop it while it is open, say how it ended where nobody knows.
import { Ban, Gavel, Workflow } from 'lucide-react'
import { lazy, Suspense, useState } from 'react'
import { asApiError } from '../../api/errors'
import { may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { Dialog } from '../../ui/Dialog'
import { Select, TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { type Call, cancelCall, isOpen, settleCall, useCallChange } from './queries'

// Few calls become nodes.
const NodeDialog = lazy(async () => ({ default: (await import('../workflows/NodeDialog')).NodeDialog }))

export function Actions({ call }: { call: Call }) {
  const me = useMe()
  const [asking, setAsking] = useState<'cancel' | 'settle' | 'node'>()
  const close = () => setAsking(undefined)
  return (
    <>
      {isOpen(call.status) && (
        <Button
          kind="danger"
          size="small"
          icon={<Ban aria-hidden="true" />}
          onPress={() => setAsking('cancel')}
          disabledReason={
            !may(me, 'calls.create')
              ? 'Stopping calls needs the role member'
              : call.cancel_requested_by
                ? 'Somebody has asked it to stop already'
                : undefined
          }
        >
          Cancel
        </Button>
      )}
      {call.status === 'outcome_unknown' && (
        <Button
          kind="primary"
          size="small"
          icon={<Gavel aria-hidden="true" />}
          onPress={() => setAsking('settle')}
          disabledReason={may(me, 'calls.settle') ? undefined : 'Settling calls needs the role approver'}
        >
          Settle
        </Button>
      )}
      {may(me, 'workflows.edit') && !isOpen(call.status) && (
        <Button
          kind="quiet"
          size="small"
          icon={<Workflow aria-hidden="true" />}
          onPress={() => setAsking('node')}
          disabledReason={call.input === null ? 'Its input was erased' : undefined}
        >
          As a node
        </Button>
      )}
      {asking === 'node' && (
        <Suspense>
          <NodeDialog call={call.id} onClose={close} />
        </Suspense>
      )}
      {asking === 'cancel' && <CancelDialog call={call} onClose={close} />}
      {asking === 'settle' && <SettleDialog call={call} onClose={close} />}
    </>
  )
}

function CancelDialog({ call, onClose }: { call: Call; onClose: () => void }) {
  const cancel = useCallChange(cancelCall)
  const done = () => {
    notify('The call is asked to stop.')
    onClose()
  }
  return (
    <ConfirmDialog
      title="Cancel this call?"
      confirm="Cancel the call"
      isPending={cancel.isPending}
      error={cancel.error}
      onConfirm={() => cancel.mutate(call.id, { onSuccess: done })}
      onClose={onClose}
    >
      <p>
        {call.status === 'running'
          ? 'It is asked to stop. What it changed until then stays changed.'
          : 'It has not begun, so nothing was changed and nothing will be.'}
      </p>
    </ConfirmDialog>
  )
}

const ENDS = [
  { id: 'completed', label: 'It happened' },
  { id: 'failed', label: 'It did not happen' },
]

function SettleDialog({ call, onClose }: { call: Call; onClose: () => void }) {
  const settle = useCallChange(settleCall)
  const [status, setStatus] = useState('completed')
  const [reason, setReason] = useState('')
  const error = settle.isError ? asApiError(settle.error) : undefined
  const at = error?.problem?.pointer === '/reason' ? error.message : undefined
  return (
    <Dialog
      title="How did it end?"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Not now</Button>
          <Button
            kind="primary"
            isPending={settle.isPending}
            disabledReason={reason.trim() === '' ? 'Say first how you know' : undefined}
            onPress={() =>
              settle.mutate(
                { id: call.id, status: status === 'failed' ? 'failed' : 'completed', reason: reason.trim() },
                {
                  onSuccess: () => {
                    notify('Settled. Your word is in the log.')
                    onClose()
                  },
                },
              )
            }
          >
            Settle
          </Button>
        </>
      }
    >
      <p>
        The call was cut off while it ran. Look where it would have left its mark, then say what you found. It is
        recorded as your word.
      </p>
      <Select label="Outcome" options={ENDS} value={status} onChange={setStatus} />
      <TextField
        label="How you know"
        value={reason}
        onChange={setReason}
        lines={3}
        required
        error={at}
        hint="For example: the ticket is there, number 4711."
      />
      {error && !at && <Problem error={error} />}
    </Dialog>
  )
}
