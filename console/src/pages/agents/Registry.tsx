// Every tool, with whether the agent has it and why; assigning is one button away.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Wrench } from 'lucide-react'
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { Checkbox } from '../../ui/Checkbox'
import { Dialog } from '../../ui/Dialog'
import { AsksBadge, ClassBadge, RiskBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { SearchField, Select } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import css from './agents.module.css'
import { type AgentTool, agentToolsQuery, assign, assignmentsQuery, profilesQuery, useAgentChange } from './queries'

export function Registry({ agent }: { agent: string }) {
  const me = useMe()
  const navigate = useNavigate()
  const tools = useQuery(agentToolsQuery(agent))
  const pages = useInfiniteQuery(assignmentsQuery(agent)).data?.pages ?? []
  // An open toolset has tools that nobody assigned; assigning one puts it under a profile.
  const assigned = new Set(pages.flatMap(({ items }) => items).map(({ tool }) => tool))
  const [words, setWords] = useState('')
  const [onlyHas, setOnlyHas] = useState(false)
  const [assigning, setAssigning] = useState<string>()
  if (tools.isPending) return <SkeletonRows />
  if (tools.isError) return <Problem error={tools.error} retry={() => void tools.refetch()} />
  const rows = tools.data.items.filter(
    ({ name, title, has }) =>
      (has || !onlyHas) && `${name} ${title}`.toLowerCase().includes(words.trim().toLowerCase()),
  )
  const refused = may(me, 'tools.assign') ? undefined : 'Administrators assign tools'
  const columns: readonly Column<AgentTool>[] = [
    { id: 'name', label: 'Tool', width: 'minmax(140px, 1.2fr)', phone: true, cell: ({ name }) => <code>{name}</code> },
    { id: 'class', label: 'Class', width: '168px', cell: (tool) => <ClassBadge egressClass={tool.egress_class} /> },
    { id: 'risk', label: 'Risk', width: '90px', cell: ({ risk }) => <RiskBadge risk={risk} /> },
    {
      id: 'asks',
      label: 'Approval',
      width: '110px',
      cell: ({ requires_approval }) => (requires_approval ? <AsksBadge /> : null),
    },
    {
      id: 'why',
      label: 'Whether it has it, and why',
      width: 'minmax(180px, 1.6fr)',
      cell: ({ has, why }) => (
        <span title={why}>
          <b>{has ? 'Yes' : 'No'}</b>, {why}
        </span>
      ),
    },
    {
      id: 'act',
      label: '',
      width: '80px',
      align: 'right',
      phone: true,
      cell: ({ name }) =>
        assigned.has(name) ? null : (
          <Button
            size="small"
            aria-label={`Assign ${name}`}
            disabledReason={refused}
            onPress={() => setAssigning(name)}
          >
            Assign
          </Button>
        ),
    },
  ]
  return (
    <>
      <div className={css.bar}>
        <SearchField label="Search tools" value={words} onChange={setWords} />
        <Checkbox isSelected={onlyHas} onChange={setOnlyHas}>
          Only those it has
        </Checkbox>
      </div>
      {rows.length === 0 ? (
        <Empty icon={<Wrench aria-hidden="true" />} title="No tool fits">
          {onlyHas ? 'The agent has none of them. Assign one, or open its toolset.' : 'Try fewer words.'}
        </Empty>
      ) : (
        <Table
          label="Tools of the registry"
          columns={columns}
          cards
          rows={rows}
          rowKey={({ name }) => name}
          rowLink={({ name }) => `/tools/${encodeURIComponent(name)}`}
          onOpen={({ name }) => void navigate(to.tool(name))}
        />
      )}
      {assigning && <AssignDialog agent={agent} tool={assigning} onClose={() => setAssigning(undefined)} />}
    </>
  )
}

export function AssignDialog({
  agent,
  tool,
  profile = '',
  onClose,
}: {
  agent: string
  tool: string
  profile?: string
  onClose: () => void
}) {
  const [chosen, setChosen] = useState(profile)
  const profiles = useInfiniteQuery(profilesQuery()).data?.pages.flatMap(({ items }) => items) ?? []
  const assigned = useAgentChange(assign, `${agent} has ${tool}.`)
  const save = () =>
    assigned.mutate({ agent, tool, ...(chosen === '' ? {} : { profile: chosen }) }, { onSuccess: onClose })
  return (
    <Dialog
      title={`${tool} for ${agent}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" onPress={save} isDisabled={assigned.isPending}>
            Assign
          </Button>
        </>
      }
    >
      {assigned.isError && <Problem error={assigned.error} />}
      <Select
        label="Profile"
        all="The agent’s own, if it has one"
        options={profiles.map(({ name }) => ({ id: name, label: name }))}
        value={chosen}
        onChange={setChosen}
      />
      <p className={css.quiet}>A profile narrows how this agent may use this tool: approval, cost, rate, hosts.</p>
    </Dialog>
  )
}
