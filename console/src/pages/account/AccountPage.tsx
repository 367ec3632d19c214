// Oneself: who one is here, where one is signed in, the password, the look.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { LogOut } from 'lucide-react'
import { useState } from 'react'
import { queries } from '../../api/queries'
import { router } from '../../app/routes'
import { useMe } from '../../app/session'
import { chooseTheme, type Theme, useTheme } from '../../app/theme'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
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
  const [isLeaving, setLeaving] = useState(false)
  const theme = useTheme()
  return (
    <Page
      title={me.name}
      count={`in ${me.tenant}`}
      actions={
        <>
          <Button onPress={() => setLeaving(true)}>Sign out everywhere</Button>
          <Button onPress={() => out.mutate(undefined)} isDisabled={out.isPending} icon={<LogOut aria-hidden="true" />}>
            Sign out
          </Button>
        </>
      }
    >
      <Body narrow>
        {out.isError && <Problem error={out.error} />}
        <Section title="Roles" note={me.roles.length === 0 ? 'None.' : me.roles.join(', ')} />
        <Section title="Look">
          <div className={css.field}>
            <Select
              label="Theme"
              options={THEMES}
              value={theme}
              onChange={(chosen) => chooseTheme(chosen as Theme)}
              hideLabel
            />
          </div>
        </Section>
        <Section title="Password">
          <PasswordForm />
        </Section>
        <Section title="Where you are signed in">
          <Sessions />
        </Section>
      </Body>
      {isLeaving && <Everywhere onClose={() => setLeaving(false)} leave={leave} />}
    </Page>
  )
}

function Everywhere({ onClose, leave }: { onClose: () => void; leave: () => void }) {
  const count = useQuery(sessionsQuery()).data?.items.length
  const everywhere = useSessionChange(signOutEverywhere, () => {
    notify(count === undefined ? 'You are signed out everywhere.' : `Signed out: ${sessions(count)} ended.`)
    leave()
  })
  return (
    <ConfirmDialog
      title="Sign out everywhere?"
      confirm="Sign out everywhere"
      keep="Stay signed in"
      isPending={everywhere.isPending}
      error={everywhere.error}
      onConfirm={() => everywhere.mutate(undefined)}
      onClose={onClose}
    >
      <p>{everywhereWords(count)}</p>
    </ConfirmDialog>
  )
}

function Sessions() {
  const client = useQueryClient()
  const listed = useQuery(sessionsQuery())
  const session = useQuery(queries.session()).data?.session
  const end = useMutation({
    mutationFn: endSession,
    onSuccess: () => {
      notify('That session has ended.')
      void client.invalidateQueries({ queryKey: ['sessions'] })
    },
  })
  if (listed.isError) return <Problem error={listed.error} retry={() => void listed.refetch()} />
  return (
    <>
      {end.isError && <Problem error={end.error} />}
      <ul className={css.sessions}>
        {listed.data?.items.map(({ id, how, began_at, seen_at, address, agent, current }) => (
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

const sessions = (count: number) => (count === 1 ? '1 session' : `${count} sessions`)

export function everywhereWords(count: number | undefined): string {
  const rest = 'Keys of agents and programs go on.'
  if (count === undefined) return `Every session of yours ends, this one too. ${rest}`
  if (count === 1) return `You have 1 session: this browser. It ends. ${rest}`
  const others = count === 2 ? 'one other' : `${count - 1} others`
  return `You have ${sessions(count)}: this browser and ${others}. All of them end. ${rest}`
}

/** `Chrome on Linux` from what a browser calls itself: a hint for the reader, nothing that decides. */
export function shortAgent(agent: string): string {
  const program = /(Firefox|Edg|OPR|Chrome|Safari|curl)\//.exec(agent)?.[1]
  const system = /(Windows|Android|iPhone|iPad|Mac OS X|Linux)/.exec(agent)?.[1]
  const name = { Edg: 'Edge', OPR: 'Opera' }[program ?? ''] ?? program ?? 'A browser'
  return system ? `${name} on ${system.replace('Mac OS X', 'macOS')}` : name
}
