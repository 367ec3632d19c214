// A program wants to use tools in somebody's name (OAuth): who it says it is, where it goes on to, as whom and what for.
// Nothing is sent anywhere before the person decides.
import { queryOptions, useMutation, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, type Schemas, taken } from '../../api/client'
import { queries } from '../../api/queries'
import { router } from '../../app/routes'
import { StepUp, withStepUp } from '../../app/StepUp'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { Fact, Facts } from '../../ui/Facts'
import { Select } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { Gate } from '../sign-in/Gate'
import css from '../sign-in/Gate.module.css'
import own from './ConnectPage.module.css'

type Asked = Schemas['OauthAsked']

// Whoever is led to click twice decides nothing by the second click, which falls on a page that just opened.
const SEEN_MS = 700

const SCOPES: Record<string, string> = {
  'tools:execute': 'see and call the tools that you may call',
  'calls.read.own': 'see the calls that it made',
}

const askedQuery = (query: string) =>
  queryOptions({
    queryKey: ['oauth', query],
    queryFn: ({ signal }) => {
      const said = Object.fromEntries(new URLSearchParams(query)) as never
      return taken(api.GET('/api/v1/oauth/request', { params: { query: said }, signal }))
    },
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  })

export function ConnectPage() {
  const [query] = useState(() => window.location.search.slice(1))
  const session = useQuery(queries.session())
  const signedOut = session.data !== undefined && !session.data.me
  useEffect(() => {
    if (signedOut) void router.navigate({ ...to.signIn(router.state.location.href), replace: true })
  }, [signedOut])
  const me = session.data?.me
  const asked = useQuery({ ...askedQuery(query), enabled: me !== undefined && me !== null })
  if (session.isError || asked.isError) {
    return (
      <Gate title="Connect a program">
        <Problem error={session.error ?? asked.error} />
      </Gate>
    )
  }
  if (!me || !asked.data) {
    return (
      <Gate title="Connect a program">
        <p role="status">One moment.</p>
      </Gate>
    )
  }
  return <Decide asked={asked.data} query={query} name={me.name} />
}

function Decide({ asked, query, name }: { asked: Asked; query: string; name: string }) {
  const { client, agents, scopes } = asked
  const [agent, setAgent] = useState(asked.agent ?? '')
  const [isSeen, setSeen] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setSeen(true), SEEN_MS)
    return () => clearTimeout(timer)
  }, [])
  const decide = useMutation({
    mutationFn: (allow: boolean) =>
      withStepUp(() =>
        taken(api.POST('/api/v1/oauth/decision', { body: { query, allow, agent: agent === '' ? null : agent } })),
      ),
    onSuccess: ({ redirect }) => window.location.assign(redirect),
  })
  if (decide.isSuccess) {
    return (
      <Gate title={decide.variables ? 'Allowed' : 'Not allowed'}>
        <p role="status">Your browser goes back to the program. You can close this page when it is there.</p>
      </Gate>
    )
  }
  const words = scopes.filter((scope) => SCOPES[scope] === undefined)
  const busy = decide.isPending || !isSeen
  return (
    <Gate title="Let this program use tools in your name?">
      <Facts>
        <Fact name="It calls itself">
          <strong className={own.name}>{client.name}</strong>
          <small className={own.note}>Its own words. Nobody checked them.</small>
        </Fact>
        {client.site && (
          <Fact name="Its site">
            <code>{client.site}</code>
          </Fact>
        )}
        <Fact name="Goes on to">
          {client.goes_to_kind === 'this_computer' ? 'a program on this computer' : <code>{client.goes_to}</code>}
        </Fact>
        <Fact name="In the name of">
          {name}, in {asked.tenant_name}
          {asked.narrowed && (
            <>
              , for <code>{asked.narrowed}</code> alone
            </>
          )}
        </Fact>
        <Fact name="It may">
          <ul className={own.rights}>
            {scopes.map((scope) => SCOPES[scope] && <li key={scope}>{SCOPES[scope]}</li>)}
            {words.length > 0 && <li>{words.join(', ')}</li>}
          </ul>
        </Fact>
      </Facts>
      {asked.agent ? (
        <p>
          It acts as the agent <code>{asked.agent}</code>.
        </p>
      ) : (
        agents.length > 0 && (
          <Select
            label="It acts as"
            options={agents.map((one) => ({ id: one.name, label: `the agent ${one.name}` }))}
            value={agent}
            onChange={setAgent}
            all={`you, ${name}`}
          />
        )
      )}
      <p className={css.quiet}>
        It cannot decide approvals or change settings. What changes something outside still waits for a person. You can
        take this back with <code>toolgate key revoke</code>.
      </p>
      {decide.isError && <Problem error={decide.error} />}
      <div className={css.form}>
        <Button kind="primary" isDisabled={busy} onPress={() => decide.mutate(true)}>
          Allow
        </Button>
        <Button isDisabled={busy} onPress={() => decide.mutate(false)}>
          Do not allow
        </Button>
      </div>
      <p className={css.quiet}>Did you not just connect a program? Then do not allow it.</p>
      <StepUp />
    </Gate>
  )
}
