// A new password, for who holds the link that was mailed or handed over.
import { type FormEvent, useState } from 'react'
import { asApiError } from '../../api/errors'
import { router } from '../../app/routes'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { finishReset, useSessionChange } from './api'
import { useFragment } from './fragment'
import { Gate } from './Gate'
import css from './Gate.module.css'
import { NewPassword } from './NewPassword'

export function ResetPage() {
  const token = useFragment()
  const [password, setPassword] = useState('')
  const finish = useSessionChange(finishReset, () => {
    notify('The password is set. All sessions have ended: sign in with the new one.')
    void router.navigate({ ...to.signIn(), replace: true })
  })
  if (token === '') {
    return (
      <Gate title="Set a new password">
        <p>This page needs the link from the mail. Ask for a new one at the sign-in.</p>
        <a href="/sign-in">To the sign-in</a>
      </Gate>
    )
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    finish.mutate({ token, password })
  }
  const error = finish.isError ? asApiError(finish.error) : undefined
  const atField = error?.problem?.pointer === '/password' ? error.message : undefined
  return (
    <Gate title="Set a new password">
      {error && !atField && <Problem error={error} />}
      <form className={css.form} onSubmit={submit}>
        <NewPassword value={password} onChange={setPassword} error={atField} />
        <Button type="submit" kind="primary" isDisabled={finish.isPending || password === ''}>
          Set the password
        </Button>
      </form>
    </Gate>
  )
}
