// An invitation: who invites to what, then a name and a password, and one is in.
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { asApiError } from '../../api/errors'
import { router } from '../../app/routes'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { Time } from '../../ui/Time'
import { acceptInvitation, invitationQuery, useSessionChange } from './api'
import { useFragment } from './fragment'
import { Gate } from './Gate'
import css from './Gate.module.css'
import { NewPassword } from './NewPassword'

export function InvitePage() {
  const token = useFragment()
  const invitation = useQuery({ ...invitationQuery(token), enabled: token !== '' })
  if (token === '') {
    return (
      <Gate title="Invitation">
        <p>This page needs the whole link that you were given, with the part behind the #.</p>
      </Gate>
    )
  }
  if (invitation.isPending) {
    return (
      <Gate title="Invitation">
        <p role="status">One moment.</p>
      </Gate>
    )
  }
  if (invitation.isError) {
    return (
      <Gate title="Invitation">
        <Problem error={invitation.error} />
      </Gate>
    )
  }
  const { tenant, name, roles, invited_by, expires_at } = invitation.data
  return (
    <Gate title={`Join ${tenant.name}`}>
      <p>
        {invited_by} invites you as {roles.join(', ')}. The invitation ends <Time at={expires_at} />.
      </p>
      <AcceptForm token={token} proposed={name} />
    </Gate>
  )
}

function AcceptForm({ token, proposed }: { token: string; proposed: string }) {
  const [name, setName] = useState(proposed)
  const [password, setPassword] = useState('')
  const accept = useSessionChange(acceptInvitation, () => void router.navigate({ ...to.home(), replace: true }))
  const error = accept.isError ? asApiError(accept.error) : undefined
  const at = (pointer: string) => (error?.problem?.pointer === pointer ? error.message : undefined)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    accept.mutate({ token, name: name.trim(), password })
  }
  return (
    <form className={css.form} onSubmit={submit}>
      {error && !at('/name') && !at('/password') && <Problem error={error} />}
      <TextField label="Your name" value={name} onChange={setName} autoComplete="username" error={at('/name')} />
      <NewPassword value={password} onChange={setPassword} error={at('/password')} />
      <Button type="submit" kind="primary" isDisabled={accept.isPending || password === '' || name.trim() === ''}>
        Join
      </Button>
    </form>
  )
}
