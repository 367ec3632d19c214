// A new password for oneself. Whoever has one says it first; whoever came by a link may simply set one.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { asApiError } from '../../api/errors'
import { queries } from '../../api/queries'
import { withStepUp } from '../../app/StepUp'
import { Button } from '../../ui/Button'
import { TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { NewPassword } from '../sign-in/NewPassword'
import css from './AccountPage.module.css'
import { changePassword } from './queries'

export function PasswordForm() {
  const client = useQueryClient()
  const session = useQuery(queries.session()).data?.session
  const has = session?.step_up_by.includes('password') ?? false
  const [present, setPresent] = useState('')
  const [password, setPassword] = useState('')
  const change = useMutation({
    mutationFn: (body: Parameters<typeof changePassword>[0]) => withStepUp(() => changePassword(body)),
    onSuccess: () => {
      notify('The password is set; your other sessions have ended.')
      setPresent('')
      setPassword('')
      void client.invalidateQueries({ queryKey: ['session'] })
      void client.invalidateQueries({ queryKey: ['sessions'] })
    },
  })
  const error = change.isError ? asApiError(change.error) : undefined
  const at = (pointer: string) => (error?.problem?.pointer === pointer ? error.message : undefined)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    change.mutate({ ...(has ? { present } : {}), password })
  }
  return (
    <form className={css.form} onSubmit={submit}>
      {error && !at('/present') && !at('/password') && <Problem error={error} />}
      {has && (
        <TextField
          label="Present password"
          type="password"
          value={present}
          onChange={setPresent}
          autoComplete="current-password"
          error={at('/present')}
        />
      )}
      <NewPassword value={password} onChange={setPassword} error={at('/password')} />
      <Button type="submit" isDisabled={change.isPending || password === '' || (has && present === '')}>
        {has ? 'Change the password' : 'Set a password'}
      </Button>
    </form>
  )
}
