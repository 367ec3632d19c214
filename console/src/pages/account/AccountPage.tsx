// Oneself: who one is here, where one is signed in, the password, the look.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { LogOut } from 'lucide-react'
import { queries } from '../../api/queries'
import { router } from '../../app/routes'
import { useMe } from '../../app/session'
import { chooseTheme, type Theme, useTheme } from '../../app/theme'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { Select } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { Time } from '../../ui/Time'
import { useSessionChange } from '../sign-in/api'
import css from './AccountPage.module.css'
import { PasswordForm } from './PasswordForm'
import { endSession, sessionsQuery, signOut, signOutEverywhere } from './queries'

const HOW: Record<string, string> = {
  link: 'by a one-time link',
  password: 'by password',
  oidc: 'at the provider of identities',
  invitation: 'by an invitation',
}

const THEMES: readonly { id: Theme; label: string }[] = [
  { id: 'system', label: 'As the system' },
  { id: 'light', label: 'Light' },
  { id: 'dark', label: 'Dark' },
]

export function AccountPage() {
  const me = useMe()
  const leave = () => void router.navigate({ ...to.signIn(), replace: true })
  const out = useSessionChange(signOut, leave)
  const everywhere = useSessionChange(signOutEverywhere, leave)
  const theme = useTheme()
  return (
    <Page
      title={me.name}
      count={`in ${me.tenant}`}
      actions={
        <>
          <Button onPress={() => everywhere.mutate(undefined)} isDisabled={everywhere.isPending}>
            Sign out everywhere
          </Button>
          <Button onPress={() => out.mutate(undefined)} isDisabled={out.isPending} icon={<LogOut aria-hidden="true" />}>
            Sign out
          </Button>
        </>
      }
    >
      <Body narrow>
        {out.isError && <Problem error={out.error} />}
        {everywhere.isError && <Problem error={everywhere.error} />}
        <Section title="Roles" note={me.roles.length === 0 ? 'None.' : me.roles.join(', ')} />
        <Section title="Look">
          <Select
            label="Theme"
            options={THEMES}
            value={theme}
            onChange={(chosen) => chooseTheme(chosen as Theme)}
            hideLabel
          />
        </Section>
        <Section title="Password">
          <PasswordForm />
        </Section>
        <Section title="Where you are signed in">
          <Sessions />
        </Section>
      </Body>
    </Page>
  )
}

function Sessions() {
  const client = useQueryClient()
  const sessions = useQuery(sessionsQuery())
  const session = useQuery(queries.session()).data?.session
  const end = useMutation({
    mutationFn: endSession,
    onSuccess: () => {
      notify('That session has ended.')
      void client.invalidateQueries({ queryKey: ['sessions'] })
    },
  })
  if (sessions.isError) return <Problem error={sessions.error} retry={() => void sessions.refetch()} />
  return (
    <>
      {end.isError && <Problem error={end.error} />}
      <ul className={css.sessions}>
        {sessions.data?.items.map(({ id, how, began_at, seen_at, address, agent, current }) => (
          <li key={id}>
            <div>
              <p>
                {current ? <b>This browser</b> : <span>{agent ? shortAgent(agent) : 'A browser'}</span>}, signed in{' '}
                {HOW[how] ?? how} <Time at={began_at} />
              </p>
              <p className={css.quiet}>
                {address && <code>{address}</code>} last seen <Time at={seen_at} />
                {current && session && (
                  <>
                    , ends <Time at={session.ends_at} />
                  </>
                )}
              </p>
            </div>
            {!current && (
              <Button size="small" onPress={() => end.mutate(id)} isDisabled={end.isPending}>
                End
              </Button>
            )}
          </li>
        ))}
      </ul>
    </>
  )
}

/** `Chrome on Linux` from what a browser calls itself: a hint for the reader, nothing that decides. */
export function shortAgent(agent: string): string {
  const program = /(Firefox|Edg|OPR|Chrome|Safari|curl)\//.exec(agent)?.[1]
  const system = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(agent)?.[1]
  const name = { Edg: 'Edge', OPR: 'Opera' }[program ?? ''] ?? program ?? 'A browser'
  return system ? `${name} on ${system.replace('Mac OS X', 'macOS')}` : name
}
