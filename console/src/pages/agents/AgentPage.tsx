// An agent's workspace: the tools it has and why, what binds it, what it called, what waits.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { KeyRound, Play, Snowflake } from 'lucide-react'
import { useState } from 'react'
import { useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import { CopyId } from '../../ui/CopyId'
import { ScriptedBadge } from '../../ui/domain'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { Tabs } from '../../ui/Tabs'
import { useScripted } from '../providers/queries'
import { AgentApprovals } from './AgentApprovals'
import { AgentDialog } from './AgentDialog'
import { AgentBadge } from './AgentsPage'
import { Assignments } from './Assignments'
import css from './agents.module.css'
import { Invocations } from './Invocations'
import { KeyDialog } from './KeyDialog'
import { Profiles } from './Profiles'
import {
  type Agent,
  agentQuery,
  agentToolsQuery,
  agentUsageQuery,
  assignmentsQuery,
  openApprovalsQuery,
  profilesQuery,
  replaceAgent,
  setAgentState,
  useAgentChange,
} from './queries'
import { Registry } from './Registry'
import { RunDialog, whyNotRun } from './RunDialog'

const route = getRouteApi('/shell/agents/$name')
const MANAGE = 'Authors and administrators manage agents'

export function AgentPage() {
  const { name } = route.useParams()
  const agent = useQuery(agentQuery(name))
  if (agent.isPending) return <SkeletonRows />
  if (agent.isError) {
    return (
      <Page title={name} mono>
        <Body narrow>
          <Problem error={agent.error} retry={() => void agent.refetch()} />
        </Body>
      </Page>
    )
  }
  return <Workspace agent={agent.data} />
}

function Workspace({ agent }: { agent: Agent }) {
  const me = useMe()
  const nameOf = useNames()
  const { name, state } = agent
  const { tab = 'registry' } = route.useSearch()
  const navigate = route.useNavigate()
  const [dialog, setDialog] = useState<'run' | 'edit' | 'key'>()
  const changed = useAgentChange(setAgentState, state === 'active' ? `${name} is frozen.` : `${name} goes on.`)
  const saved = useAgentChange(replaceAgent, `${name} is changed.`)

  const tools = useQuery(agentToolsQuery(name)).data?.items
  const assignments = useInfiniteQuery(assignmentsQuery(name)).data?.pages.flatMap(({ items }) => items)
  const profiles = useInfiniteQuery(profilesQuery()).data?.pages.flatMap(({ items }) => items)
  const usage = useQuery({ ...agentUsageQuery(name), enabled: may(me, 'usage.read') }).data?.items
  const waiting = useQuery(openApprovalsQuery(name)).data?.count
  const isScripted = useScripted(agent.model)
  const manages = may(me, 'agents.manage') ? undefined : MANAGE

  return (
    <Page
      title={name}
      mono
      badges={<AgentBadge state={state} />}
      actions={
        <>
          <Button
            kind="primary"
            icon={<Play aria-hidden="true" />}
            disabledReason={whyNotRun(agent, may(me, 'agents.run'))}
            onPress={() => setDialog('run')}
          >
            Run
          </Button>
          <Button onPress={() => setDialog('key')} icon={<KeyRound aria-hidden="true" />} disabledReason={manages}>
            Give it a key
          </Button>
          <Button onPress={() => setDialog('edit')} disabledReason={manages}>
            Edit
          </Button>
          <Button
            kind={state === 'active' ? 'danger' : 'plain'}
            icon={<Snowflake aria-hidden="true" />}
            disabledReason={manages}
            isDisabled={changed.isPending}
            onPress={() => changed.mutate({ agent: name, state: state === 'active' ? 'frozen' : 'active' })}
          >
            {state === 'active' ? 'Freeze' : 'Let it go on'}
          </Button>
        </>
      }
    >
      {changed.isError && <Problem error={changed.error} />}
      <p className={css.about}>
        {agent.title && <span>{agent.title}</span>}
        {agent.model !== '' && <code>{agent.model}</code>}
        {isScripted && <ScriptedBadge />}
        {agent.profile && <span>profile {agent.profile}</span>}
        {agent.owner && <span>owner {revealed(nameOf(agent.owner))}</span>}
        <CopyId id={agent.id} what="the agent's id" short />
      </p>
      <Tabs
        label="Agent"
        chosen={tab}
        onChoose={(chosen) => void navigate({ search: { tab: chosen }, replace: true })}
        tabs={[
          {
            id: 'registry',
            label: 'Registry',
            count: tools?.filter(({ has }) => has).length,
            content: () => <Registry agent={name} />,
          },
          {
            id: 'assignments',
            label: 'Assignments',
            count: assignments?.length,
            content: () => <Assignments agent={name} />,
          },
          { id: 'profiles', label: 'Profiles', count: profiles?.length, content: () => <Profiles agent={agent} /> },
          {
            id: 'invocations',
            label: 'Invocations',
            count: usage?.reduce((sum, { calls }) => sum + calls, 0),
            content: () => <Invocations agent={name} />,
          },
          { id: 'approvals', label: 'Approvals', count: waiting, content: () => <AgentApprovals agent={name} /> },
        ]}
      />
      {dialog === 'edit' && (
        <AgentDialog agent={agent} save={(spec) => saved.mutateAsync(spec)} onClose={() => setDialog(undefined)} />
      )}
      {dialog === 'run' && <RunDialog agent={agent} onClose={() => setDialog(undefined)} />}
      {dialog === 'key' && <KeyDialog agent={name} onClose={() => setDialog(undefined)} />}
    </Page>
  )
}
