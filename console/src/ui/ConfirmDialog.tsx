// One question before something that cannot be taken back: what it does, and two answers that never swap places.
import type { ReactNode } from 'react'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { Problem } from './Problem'

export function ConfirmDialog({
  title,
  confirm,
  keep = 'Keep it',
  isPending,
  error,
  onConfirm,
  onClose,
  children,
}: {
  title: string
  /** The words of the button that does it. */
  confirm: string
  /** The words of the one that does not. */
  keep?: string
  isPending: boolean
  /** Why it was refused; nothing while it was not. */
  error?: unknown
  onConfirm: () => void
  onClose: () => void
  children: ReactNode
}) {
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>{keep}</Button>
          <Button kind="danger" isPending={isPending} onPress={onConfirm}>
            {confirm}
          </Button>
        </>
      }
    >
      {children}
      {error !== undefined && error !== null && <Problem error={error} />}
    </Dialog>
  )
}
