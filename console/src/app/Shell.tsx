// The frame around every page behind the sign-in: who, where, what waits.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, type LinkProps, Outlet, useLocation } from '@tanstack/react-router'
import {
  Bot,
  CircleCheckBig,
  History,
  House,
  type LucideIcon,
  Plug,
  Search,
  SquareChartGantt,
  UserRound,
  UsersRound,
  Workflow,
  Wrench,
} from 'lucide-react'
import { lazy, Suspense, useEffect, useState } from 'react'
import { Button as AriaButton } from 'react-aria-components'
import { follow, useConnection } from '../api/live'
import { isElsewhere } from '../api/page'
import { queries } from '../api/queries'
import { Gate } from '../pages/sign-in/Gate'
import { to } from '../paths'
import { Button } from '../ui/Button'
import { Body } from '../ui/Page'
import { Problem } from '../ui/Problem'
import { SkeletonRows } from '../ui/Skeleton'
import { More } from './More'
import { router } from './routes'
import css from './Shell.module.css'
import { StepUp } from './StepUp'
import { type Me, may, SessionProvider } from './session'
import { ThemeButton } from './ThemeButton'

// Only who searches loads the search.
const Palette = lazy(async () => ({ default: (await import('./Palette')).Palette }))

export interface Place {
  label: string
  icon: LucideIcon
  link: LinkProps
  permission?: string
  /** Not for who has this. */
  unless?: string
  /** Where else it is the current place, beside its own address. */
  also?: readonly string[]
  /** Among the few that fit the bottom of a phone. */
  phone?: boolean
}

const PLACES: readonly Place[] = [
  { label: 'Home', icon: House, link: to.home(), phone: true },
  { label: 'Tools', icon: Wrench, link: to.tools(), phone: true },
  { label: 'Approvals', icon: CircleCheckBig, link: to.approvals(), phone: true },
  { label: 'Calls', icon: History, link: to.calls(), phone: true },
  { label: 'Runs', icon: SquareChartGantt, link: to.runs() },
  { label: 'Agents', icon: Bot, link: to.agents(), permission: 'agents.read' },
  { label: 'Workflows', icon: Workflow, link: to.workflows(), permission: 'tools.read' },
  // One place for what is outside: servers with tools, models, and the texts that go to them.
  {
    label: 'Connections',
    icon: Plug,
    link: to.providers(),
    permission: 'agents.read',
    also: ['/upstreams', '/skills'],
  },
  { label: 'Connections', icon: Plug, link: to.upstreams(), permission: 'upstreams.edit', unless: 'agents.read' },
  { label: 'People', icon: UsersRound, link: to.people(), permission: 'members.manage' },
]

export function Shell() {
  const session = useQuery(queries.session())
  const signedOut = session.data !== undefined && !session.data.me
  useEffect(() => {
    if (!signedOut) return
    const { href } = router.state.location
    void router.navigate({ ...to.signIn(href === '/' ? undefined : href), replace: true })
  }, [signedOut])
  if (session.isPending) return <SkeletonRows />
  if (session.isError && !session.data) {
    return (
      <Body narrow>
        <Problem error={session.error} retry={() => void session.refetch()} />
      </Body>
    )
  }
  const me = session.data.me
  if (!me) return null
  if (isElsewhere(me)) return <Elsewhere me={me} />
  return (
    <SessionProvider me={me}>
      <Frame me={me} />
    </SessionProvider>
  )
}

// What this page shows and would send is of another tenant or another person than who is signed in now.
function Elsewhere({ me }: { me: Me }) {
  return (
    <Gate title="You went on in another tab">
      <p role="status">
        There you are signed in as {me.name} in {me.tenant}. This page was opened before that and does nothing more.
      </p>
      <Button kind="primary" onPress={() => window.location.reload()}>
        Reload
      </Button>
    </Gate>
  )
}

function Frame({ me }: { me: Me }) {
  const client = useQueryClient()
  const readsAll = may(me, 'calls.read.all')
  useEffect(() => (readsAll ? follow(client) : undefined), [client, readsAll])
  const [palette, setPalette] = useState(false)
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        setPalette(true)
      }
    }
    window.addEventListener('keydown', pressed)
    return () => window.removeEventListener('keydown', pressed)
  }, [])
  const waiting = useQuery(queries.waitingApprovals()).data?.count ?? 0
  const { pathname } = useLocation()
  const places = PLACES.filter(
    ({ permission, unless }) =>
      (permission === undefined || may(me, permission)) && (unless === undefined || !may(me, unless)),
  )
  return (
    <div className={css.frame}>
      <a href="#main" className={css.skip}>
        Skip to the page
      </a>
      <nav className={css.nav} aria-label="Main">
        <div className={css.brand}>
          <img src="/mark.svg" alt="" width="18" height="18" /> Toolgate
        </div>
        <AriaButton className={`${css.place} ${css.find}`} onPress={() => setPalette(true)}>
          <Search aria-hidden="true" /> <span>Search</span> <kbd>{COMMAND_KEY}K</kbd>
        </AriaButton>
        {places.map(({ label, icon: Icon, link, phone, also }) => (
          <Link
            key={label}
            {...link}
            className={phone ? css.place : `${css.place} ${css.wide}`}
            activeOptions={{ exact: label === 'Home', includeSearch: false }}
            activeProps={{ 'aria-current': 'page' }}
            {...(also?.some((path) => pathname.startsWith(path)) ? { 'aria-current': 'page' as const } : {})}
          >
            <Icon aria-hidden="true" /> <span>{label}</span>
            {label === 'Approvals' && waiting > 0 && (
              <b className={css.count}>
                {waiting}
                <span className="visually-hidden"> waiting</span>
              </b>
            )}
          </Link>
        ))}
        <More places={places.filter(({ phone }) => !phone)} me={me} />
        <div className={css.foot}>
          <Connection />
          <ThemeButton className={css.place} />
          <Link {...to.account()} className={css.place} activeProps={{ 'aria-current': 'page' }} data-testid="who">
            <UserRound aria-hidden="true" />
            <span className={css.who} title={`${me.name} in ${me.tenant}`}>
              {me.name} <small>{me.tenant}</small>
            </span>
          </Link>
        </div>
      </nav>
      <main id="main" className={css.main} tabIndex={-1}>
        <Outlet />
      </main>
      <StepUp />
      {palette && (
        <Suspense>
          <Palette isOpen onClose={() => setPalette(false)} me={me} />
        </Suspense>
      )}
    </div>
  )
}

const COMMAND_KEY = navigator.userAgent.includes('Mac') ? '⌘' : 'Ctrl '

function Connection() {
  const connection = useConnection()
  return (
    <p role="status" className={connection === 'broken' ? css.broken : 'visually-hidden'}>
      {connection === 'broken' ? 'Reconnecting…' : ''}
    </p>
  )
}
