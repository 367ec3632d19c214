// A question over the page, and a drawer at its side. Both trap the focus, close with Escape and give the focus back.
import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { Dialog as AriaDialog, Heading, Modal, ModalOverlay } from 'react-aria-components'
import { Button } from './Button'
import css from './Dialog.module.css'

interface Props {
  title: string
  isOpen: boolean
  onClose: () => void
  children: ReactNode
}

export function Dialog({ title, isOpen, onClose, actions, children }: Props & { actions?: ReactNode }) {
  return (
    <ModalOverlay
      className={css.overlay ?? ''}
      isOpen={isOpen}
      onOpenChange={(open) => {
        if (!open) onClose()
      }}
      isDismissable
    >
      <Modal className={css.modal ?? ''}>
        <AriaDialog className={css.dialog ?? ''}>
          <Heading slot="title">{title}</Heading>
          <div className={css.content}>{children}</div>
          {actions && <div className={css.actions}>{actions}</div>}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}

export function Drawer({ title, isOpen, onClose, children }: Props) {
  return (
    <ModalOverlay
      className={`${css.overlay} ${css.aside}`}
      isOpen={isOpen}
      onOpenChange={(open) => {
        if (!open) onClose()
      }}
      isDismissable
    >
      <Modal className={css.drawer ?? ''}>
        <AriaDialog className={css.dialog ?? ''} aria-label={title}>
          <div className={css.close}>
            <Button kind="quiet" size="small" aria-label="Close" icon={<X />} onPress={onClose} />
          </div>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  )
}
