// Inviting somebody: a name, perhaps an address, and what they may do.
import { type FormEvent, useId, useState } from 'react'
import { asApiError } from '../../api/errors'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import css from './people.module.css'
import { invite, type Role, usePeopleChange } from './queries'
import { Roles } from './Roles'
import { SecretLink } from './SecretLink'

export function InviteDialog({ onClose }: { onClose: () => void }) {
  const form = useId()
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [roles, setRoles] = useState<Role[]>(['member'])
  const sent = usePeopleChange(invite, ({ mailed_to }) => (mailed_to ? `Invited by mail: ${mailed_to}.` : undefined))
  const error = sent.isError ? asApiError(sent.error) : undefined
  const at = (pointer: string) => (error?.problem?.pointer === pointer ? error.message : undefined)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    sent.mutate({ name: name.trim(), roles, ...(email.trim() === '' ? {} : { email: email.trim() }) })
  }
  if (sent.isSuccess) {
    const { url, mailed_to } = sent.data
    return (
      <Dialog title="Invited" isOpen onClose={onClose} actions={<Button onPress={onClose}>Done</Button>}>
        {url ? (
          <SecretLink
            words={`Hand this link to ${name}. It works once, for seven days, and is not shown again.`}
            url={url}
          />
        ) : (
          <p>The invitation was sent to {mailed_to}.</p>
        )}
      </Dialog>
    )
  }
  return (
    <Dialog
      title="Invite somebody"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" form={form} kind="primary" isDisabled={sent.isPending || name.trim() === ''}>
            Invite
          </Button>
        </>
      }
    >
      <form id={form} className={css.form} onSubmit={submit}>
        {error && !at('/name') && !at('/email') && <Problem error={error} />}
        <TextField label="Name" value={name} onChange={setName} error={at('/name')} autoFocus />
        <TextField
          label="E-mail"
          type="email"
          value={email}
          onChange={setEmail}
          error={at('/email')}
          hint="Where the server can send mail, the link goes there; otherwise it is shown to you once."
        />
        <Roles value={roles} onChange={setRoles} />
      </form>
    </Dialog>
  )
}
