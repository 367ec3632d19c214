// The places that do not fit the bottom of a phone, in a sheet that comes up from there.
import { Link, useLocation } from '@tanstack/react-router'
import { Ellipsis, UserRound } from 'lucide-react'
import { useState } from 'react'
import { Button, Dialog, Modal, ModalOverlay } from 'react-aria-components'
import { to } from '../paths'
import css from './More.module.css'
import type { Place } from './Shell'
import shell from './Shell.module.css'
import type { Me } from './session'
import { ThemeButton } from './ThemeButton'

export function More({ places, me }: { places: readonly Place[]; me: Me }) {
  const [isOpen, setOpen] = useState(false)
  const close = () => setOpen(false)
  const { pathname } = useLocation()
  const paths = [...places.flatMap(({ link, also = [] }) => [`${link.to}`, ...also]), to.account().to]
  const isHere = paths.some((path) => pathname.startsWith(path))
  return (
    <>
      <Button
        className={`${shell.place} ${css.more}`}
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        aria-current={isHere ? 'page' : 'false'}
        onPress={() => setOpen(true)}
      >
        <Ellipsis aria-hidden="true" /> <span>More</span>
      </Button>
      <ModalOverlay className={css.overlay ?? ''} isOpen={isOpen} onOpenChange={setOpen} isDismissable>
        <Modal className={css.sheet ?? ''}>
          <Dialog aria-label="More" className={css.dialog ?? ''}>
            {places.map(({ label, icon: Icon, link }) => (
              <Link key={label} {...link} className={css.place} activeProps={CURRENT} onClick={close}>
                <Icon aria-hidden="true" /> {label}
              </Link>
            ))}
            <Link {...to.account()} className={css.place} activeProps={CURRENT} onClick={close}>
              <UserRound aria-hidden="true" /> Account
              <span className={css.who}>
                {me.name} in {me.tenant}
              </span>
            </Link>
            <ThemeButton className={css.place} />
          </Dialog>
        </Modal>
      </ModalOverlay>
    </>
  )
}

const CURRENT = { 'aria-current': 'page' } as const
