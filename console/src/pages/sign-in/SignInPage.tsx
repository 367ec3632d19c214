// Signing in: by a one-time link in the address, by password, or at the provider of identities.
import { useMutation, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import type { Schemas } from '../../api/client'
import { queries } from '../../api/queries'
import { router } from '../../app/routes'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { Time } from '../../ui/Time'
import {
  askForReset,
  leaveForProvider,
  linkQuery,
  signInByPassword,
  spendLink,
  tenantsOf,
  useSessionChange,
  waysQuery,
} from './api'
import { safeNext, useFragment } from './fragment'
import { Gate } from './Gate'
import css from './Gate.module.css'

type Link = Schemas['LinkShown']

const route = getRouteApi('/sign-in')

// Why the way back from the provider of identities ended here.
const FAILED: Record<string, string> = {
  denied: 'The provider did not sign you in. Try again, or choose another account there.',
  expired: 'That took longer than ten minutes, or began in another browser. Begin again.',
  no_role: 'You are known to the provider, but none of your groups has a role here. Ask an administrator for one.',
  disabled: 'Your account is disabled here. Ask an administrator.',
  another_person: 'You confirmed as somebody else. Use the account that you are signed in with.',
  not_fresh: 'The provider did not ask you again. Sign out there, then try again.',
  too_many: 'There were too many sign-ins from your network. Wait some minutes, then try again.',
  provider: 'The provider’s answer could not be used. Try again; if it stays so, tell the operator of this server.',
}

export function SignInPage() {
  const { next, failed } = route.useSearch()
  const token = useFragment('sign-in=')
  const after = () => void router.navigate({ href: safeNext(next), replace: true })
  const spend = useSessionChange(spendLink, after)
  // Not again once it is spent.
  const link = useQuery({ ...linkQuery(token), enabled: token !== '' && spend.isIdle })
  const refused = link.error ?? spend.error

  if (token !== '' && !refused) {
    if (!link.data) {
      return (
        <Gate title="Sign in">
          <p role="status">One moment.</p>
        </Gate>
      )
    }
    return <AskFirst link={link.data} isSpending={spend.isPending} onSignIn={() => spend.mutate(token)} />
  }
  return (
    <Gate title="Sign in">
      {refused && <Problem error={refused} />}
      {failed && <Problem error={new Error(FAILED[failed] ?? 'The sign-in did not succeed. Try again.')} />}
      <Ways next={safeNext(next)} after={after} />
    </Gate>
  )
}

// Opening a link signs nobody in: whoever reads mail before people do opens it too, and any page may lead here with
// somebody else's.
function AskFirst({ link, isSpending, onSignIn }: { link: Link; isSpending: boolean; onSignIn: () => void }) {
  const present = useQuery(queries.session())
  const now = present.data?.me
  const isOther = now !== undefined && now !== null && (now.name !== link.name || now.tenant !== link.tenant.slug)
  if (present.isPending) {
    return (
      <Gate title="Sign in">
        <p role="status">One moment.</p>
      </Gate>
    )
  }
  return (
    <Gate title={`Sign in as ${link.name}?`}>
      <p>
        This link ends <Time at={link.expires_at} />, and signs this browser in once, in {link.tenant.name}.
      </p>
      {now && (
        <p role="status" className={css.present}>
          {isOther
            ? `You are signed in as ${now.name} in ${now.tenant}. Going on signs ${now.name} out in this browser.`
            : 'You are signed in already. Going on begins a new session here.'}
        </p>
      )}
      <div className={css.form}>
        <Button kind="primary" isDisabled={isSpending} onPress={onSignIn} autoFocus={!isOther}>
          Sign in as {link.name}
        </Button>
        {now && (
          <Button kind="quiet" onPress={() => void router.navigate({ ...to.home(), replace: true })}>
            Stay signed in as {now.name}
          </Button>
        )}
      </div>
      {!now && <p className={css.quiet}>Did somebody you do not know send you here? Then close this page.</p>}
    </Gate>
  )
}

function Ways({ next, after }: { next: string; after: () => void }) {
  const ways = useQuery(waysQuery())
  const provider = useMutation({ mutationFn: leaveForProvider })
  if (ways.isPending) return <p role="status">One moment.</p>
  if (ways.isError) return <Problem error={ways.error} retry={() => void ways.refetch()} />
  const { password, oidc, mail = false } = ways.data
  return (
    <>
      {provider.isError && <Problem error={provider.error} />}
      {oidc && (
        <Button kind="primary" isDisabled={provider.isPending} onPress={() => provider.mutate(next)}>
          {oidc.label}
        </Button>
      )}
      {oidc && password && <div className={css.or}>or</div>}
      {password && <PasswordForm after={after} primary={!oidc} mail={mail} />}
      <div className={css.quiet}>
        On the machine of the server, this makes a link that signs you in once:
        <pre>toolgate user sign-in-link NAME</pre>
      </div>
    </>
  )
}

function PasswordForm({
  after,
  primary,
  mail,
}: {
  after: () => void
  primary: boolean
  /** The server can send a link for a new password. */
  mail: boolean
}) {
  const [user, setUser] = useState('')
  const [password, setPassword] = useState('')
  const signIn = useSessionChange(signInByPassword, after)
  const reset = useMutation({ mutationFn: askForReset })
  const [isForgotten, setForgotten] = useState(false)
  // Absent: an address is enough for most, and a name is of the first tenant.
  const [tenant, setTenant] = useState<string>()
  const choices = tenantsOf(signIn.error)
  const send = (chosen = tenant?.trim()) =>
    signIn.mutate({ user: user.trim(), password, ...(chosen ? { tenant: chosen } : {}) })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    send()
  }
  return (
    <form className={css.form} onSubmit={submit}>
      {signIn.isError && choices.length === 0 && <Problem error={signIn.error} />}
      {choices.length > 0 && (
        <div role="status" className={css.form}>
          This opens several tenants. Where do you want to go?
          {choices.map((slug) => (
            <Button key={slug} isDisabled={signIn.isPending} onPress={() => send(slug)}>
              {slug}
            </Button>
          ))}
        </div>
      )}
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
      {tenant !== undefined && (
        <TextField label="Tenant" value={tenant} onChange={setTenant} autoComplete="organization" autoFocus />
      )}
      <Button
        type="submit"
        kind={primary ? 'primary' : 'plain'}
        isDisabled={signIn.isPending}
        disabledReason={user.trim() === '' || password === '' ? 'Fill in name and password' : undefined}
      >
        Sign in
      </Button>
      {tenant === undefined && (
        <Button kind="quiet" size="small" onPress={() => setTenant('')}>
          In another tenant?
        </Button>
      )}
      {mail ? (
        <Button
          kind="quiet"
          size="small"
          onPress={() => reset.mutate(user.trim())}
          disabledReason={user.trim() === '' ? 'Fill in your name or e-mail first' : undefined}
        >
          Forgot the password?
        </Button>
      ) : (
        <Button kind="quiet" size="small" aria-expanded={isForgotten} onPress={() => setForgotten(!isForgotten)}>
          Forgot the password?
        </Button>
      )}
      {isForgotten && (
        <p role="status" className={css.quiet}>
          This server sends no mail. An administrator makes you a link for a new one: in People, with Manage beside your
          name, then Reset the password.
        </p>
      )}
    </form>
  )
}
