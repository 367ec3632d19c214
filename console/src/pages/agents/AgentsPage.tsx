// All agents: who may call what, at a glance.
import { useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { Bot, Plus } from 'lucide-react'
import { useState } from 'react'
import { type Names, useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { ScriptedBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { SearchField } from '../../ui/Field'
import { Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { useScriptedModels } from '../providers/queries'
import { AgentDialog } from './AgentDialog'
import { type Agent, agentsQuery, createAgent, useAgentChange } from './queries'
import { Seen } from './Seen'

const route = getRouteApi('/shell/agents')

const columnsFor = (nameOf: Names, isScripted: (model: string) => boolean): readonly Column<Agent>[] => [
  { id: 'name', label: 'Agent', width: 'minmax(140px, 1fr)', phone: true, cell: ({ name }) => <code>{name}</code> },
  {
    id: 'title',
    label: 'Title',
    width: 'minmax(140px, 1.4fr)',
    cell: ({ title, description }) => (title || description ? revealed(title ?? description ?? '') : <None />),
  },
  {
    id: 'model',
    label: 'Model',
    width: 'minmax(150px, 1.2fr)',
    cell: ({ model }) =>
      model ? (
        <>
          <code>{model}</code> {isScripted(model) && <ScriptedBadge />}
        </>
      ) : (
        <None />
      ),
  },
  {
    id: 'toolset',
    label: 'Tools',
    width: '104px',
    word: 'tools',
    cell: ({ toolset }) => (toolset === 'open' ? 'all open ones' : 'as assigned'),
  },
  { id: 'profile', label: 'Profile', width: '104px', word: 'profile', cell: ({ profile }) => profile ?? <None /> },
  {
    id: 'owner',
    label: 'Owner',
    width: '104px',
    word: 'owner',
    cell: ({ owner }) => (owner ? revealed(nameOf(owner)) : <None />),
  },
  { id: 'state', label: 'State', width: '80px', phone: true, cell: ({ state }) => <AgentBadge state={state} /> },
]

/** A column in which no agent has anything is left out. */
function isEmpty(column: string, agents: readonly Agent[]): boolean {
  return (column === 'profile' || column === 'owner') && !agents.some((agent) => agent[column])
}

export function AgentsPage() {
  const me = useMe()
  const navigate = useNavigate()
  const nameOf = useNames()
  const isScripted = useScriptedModels()
  const { q = '' } = route.useSearch()
  const search = route.useNavigate()
  const agents = useInfiniteQuery(agentsQuery())
  const [making, setMaking] = useState(false)
  const created = useAgentChange(createAgent, 'The agent is made. Assign tools to it, then give it a key.')
  const rows = agents.data?.pages.flatMap(({ items }) => items) ?? []
  const shown = rows.filter(({ name, title }) => `${name} ${title ?? ''}`.toLowerCase().includes(q.toLowerCase()))
  return (
    <Page
      title="Agents"
      count={agents.isSuccess ? `${rows.length}${agents.hasNextPage ? '+' : ''}` : undefined}
      actions={
        <>
          <SearchField
            label="Search agents"
            value={q}
            onChange={(text) => void search({ search: text === '' ? {} : { q: text }, replace: true })}
          />
          <Button
            kind="primary"
            icon={<Plus aria-hidden="true" />}
            onPress={() => setMaking(true)}
            disabledReason={may(me, 'agents.manage') ? undefined : 'Authors and administrators make agents'}
          >
            New agent
          </Button>
        </>
      }
    >
      {agents.isPending && <SkeletonRows />}
      {agents.isError && <Problem error={agents.error} retry={() => void agents.refetch()} />}
      {agents.isSuccess && rows.length === 0 && (
        <Empty icon={<Bot aria-hidden="true" />} title="No agents yet" command="toolgate agent create --name helper">
          An agent is who calls tools when no person does. It has the tools that you assign, within its limits.
        </Empty>
      )}
      {rows.length > 0 && shown.length === 0 && <Empty title={`No agent is called “${q}”`} />}
      {shown.length > 0 && (
        <Table
          label="Agents"
          columns={columnsFor(nameOf, isScripted).filter(({ id }) => !isEmpty(id, rows))}
          cards
          rows={shown}
          rowKey={({ id }) => id}
          rowLink={({ name }) => `/agents/${encodeURIComponent(name)}`}
          onOpen={({ name }) => void navigate(to.agent(name))}
          more={agents.hasNextPage && !agents.isFetching ? () => void agents.fetchNextPage() : undefined}
        />
      )}
      <Seen />
      {making && (
        <AgentDialog
          save={async (spec) => {
            const { name } = await created.mutateAsync(spec)
            void navigate(to.agent(name))
          }}
          onClose={() => setMaking(false)}
        />
      )}
    </Page>
  )
}

export function AgentBadge({ state }: { state: Agent['state'] }) {
  return state === 'active' ? (
    <Badge tone="ok">active</Badge>
  ) : (
    <Badge tone="bad" shape="diamond">
      frozen
    </Badge>
  )
}
