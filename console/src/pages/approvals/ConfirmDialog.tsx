// One more question, before a critical call is approved.
import { useEffect, useState } from 'react'
import { revealed } from '../../lib/hidden'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import type { Card } from './card'
import css from './dialogs.module.css'
import type { Decision } from './queries'

// Long enough that a key held or pressed twice answers nothing.
const ARM_MS = 400

export function ConfirmDialog({
  card,
  decision,
  onClose,
  onApprove,
}: {
  card: Card
  decision: Decision
  onClose: () => void
  onApprove: () => void
}) {
  const [armed, setArmed] = useState(false)
  useEffect(() => {
    const arm = setTimeout(() => setArmed(true), ARM_MS)
    return () => clearTimeout(arm)
  }, [])
  useSubmitKey(() => {
    if (armed) onApprove()
  }, true)
  return (
    <Dialog
      title="Approve a critical call?"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose} autoFocus>
            Cancel
          </Button>
          <Button kind="primary" disabledReason={armed ? undefined : 'A moment'} keys={SUBMIT_KEYS} onPress={onApprove}>
            Approve
          </Button>
        </>
      }
    >
      <p className={css.words}>
        <code>{revealed(card.tool)}</code> runs at once, with exactly the arguments{' '}
        {decision.input === undefined ? 'on the card' : 'that you wrote'}, for {revealed(card.agent ?? card.asked_by)}.
        {decision.standing && ' Calls like it will run unasked, as you allowed.'}
      </p>
    </Dialog>
  )
}
