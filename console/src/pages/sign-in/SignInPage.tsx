// Signing in: by a one-time link in the address, by password, or at the provider of identities.
import { useMutation, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { type FormEvent, useEffect, useRef, useState } from 'react'
import { router } from '../../app/routes'
import { Button } from '../../ui/Button'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { askForReset, leaveForProvider, signInByPassword, spendLink, useSessionChange, waysQuery } from './api'
import { safeNext, useFragment } from './fragment'
import { Gate } from './Gate'
import css from './Gate.module.css'

const route = getRouteApi('/sign-in')

// Why the way back from the provider of identities ended here.
const FAILED: Record<string, string> = {
  denied: 'The provider did not sign you in. Try again, or choose another account there.',
  expired: 'That took longer than ten minutes, or began in another browser. Begin again.',
  no_role: 'You are known to the provider, but none of your groups has a role here. Ask an administrator for one.',
  disabled: 'Your account is disabled here. Ask an administrator.',
  another_person: 'You confirmed as somebody else. Use the account that you are signed in with.',
  not_fresh: 'The provider did not ask you again. Sign out there, then try again.',
  provider: 'The provider’s answer could not be used. Try again; if it stays so, tell the operator of this server.',
}

export function SignInPage() {
  const { next, failed } = route.useSearch()
  const token = useFragment('sign-in=')
  const after = () => void router.navigate({ href: safeNext(next), replace: true })
  const link = useSessionChange(spendLink, after)
  const spent = useRef(false)
  const { mutate } = link
  useEffect(() => {
    // A link works once; the effect may run twice.
    if (token === '' || spent.current) return
    spent.current = true
    mutate(token)
  }, [token, mutate])

  if (token !== '' && !link.isError) {
    return (
      <Gate title="Signing in…">
        <p role="status">One moment.</p>
      </Gate>
    )
  }
  return (
    <Gate title="Sign in">
      {link.isError && <Problem error={link.error} />}
      {failed && <Problem error={new Error(FAILED[failed] ?? 'The sign-in did not succeed. Try again.')} />}
      <Ways next={safeNext(next)} after={after} />
    </Gate>
  )
}

function Ways({ next, after }: { next: string; after: () => void }) {
  const ways = useQuery(waysQuery())
  const provider = useMutation({ mutationFn: leaveForProvider })
  if (ways.isPending) return <p role="status">One moment.</p>
  if (ways.isError) return <Problem error={ways.error} retry={() => void ways.refetch()} />
  const { password, oidc } = ways.data
  return (
    <>
      {provider.isError && <Problem error={provider.error} />}
      {oidc && (
        <Button kind="primary" isDisabled={provider.isPending} onPress={() => provider.mutate(next)}>
          {oidc.label}
        </Button>
      )}
      {oidc && password && <div className={css.or}>or</div>}
      {password && <PasswordForm after={after} primary={!oidc} />}
      <div className={css.quiet}>
        On the machine of the server, this makes a link that signs you in once:
        <pre>toolgate user sign-in-link NAME</pre>
      </div>
    </>
  )
}

function PasswordForm({ after, primary }: { after: () => void; primary: boolean }) {
  const [user, setUser] = useState('')
  const [password, setPassword] = useState('')
  const signIn = useSessionChange(signInByPassword, after)
  const reset = useMutation({ mutationFn: askForReset })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    signIn.mutate({ user: user.trim(), password })
  }
  return (
    <form className={css.form} onSubmit={submit}>
      {signIn.isError && <Problem error={signIn.error} />}
      {reset.isError && <Problem error={reset.error} />}
      {reset.isSuccess && (
        <p role="status">If that account has an e-mail address, a link to set a new password is on its way.</p>
      )}
      <TextField label="Name or e-mail" value={user} onChange={setUser} autoComplete="username" autoFocus />
      <TextField
        label="Password"
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="current-password"
      />
      <Button
        type="submit"
        kind={primary ? 'primary' : 'plain'}
        isDisabled={signIn.isPending}
        disabledReason={user.trim() === '' || password === '' ? 'Fill in name and password' : undefined}
      >
        Sign in
      </Button>
      <Button
        kind="quiet"
        size="small"
        onPress={() => reset.mutate(user.trim())}
        disabledReason={user.trim() === '' ? 'Fill in your name or e-mail first' : undefined}
      >
        Forgot the password?
      </Button>
    </form>
  )
}
