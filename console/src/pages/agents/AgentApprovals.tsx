// What the agent asked people for: what waits, and what became of the rest.
import { useInfiniteQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { CircleCheckBig } from 'lucide-react'
import type { Schemas } from '../../api/client'
import { to } from '../../paths'
import { ApprovalBadge, RiskBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import { agentApprovalsQuery } from './queries'

const COLUMNS: readonly Column<Schemas['Card']>[] = [
  { id: 'tool', label: 'Tool', width: 'minmax(140px, 1.4fr)', phone: true, cell: ({ tool }) => <code>{tool}</code> },
  { id: 'state', label: 'State', width: '110px', phone: true, cell: ({ state }) => <ApprovalBadge state={state} /> },
  { id: 'risk', label: 'Risk', width: '90px', cell: ({ risk }) => <RiskBadge risk={risk} /> },
  {
    id: 'why',
    label: 'Why it asks',
    width: 'minmax(160px, 1.6fr)',
    cell: ({ reasons }) => reasons.map(({ text }) => text).join(', '),
  },
  { id: 'ends', label: 'Ends', width: '110px', word: 'ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
]

export function AgentApprovals({ agent }: { agent: string }) {
  const navigate = useNavigate()
  const approvals = useInfiniteQuery(agentApprovalsQuery(agent))
  if (approvals.isPending) return <SkeletonRows />
  if (approvals.isError) return <Problem error={approvals.error} retry={() => void approvals.refetch()} />
  const rows = approvals.data.pages.flatMap(({ items }) => items)
  if (rows.length === 0) {
    return (
      <Empty icon={<CircleCheckBig aria-hidden="true" />} title="It has asked nobody yet">
        A call that changes things outside, or that a policy, label or guardrail holds up, waits here for a person.
      </Empty>
    )
  }
  return (
    <Table
      label="Approvals"
      columns={COLUMNS}
      cards
      rows={rows}
      rowKey={({ id }) => id}
      rowLink={({ id }) => `/approvals/${id}`}
      onOpen={({ id }) => void navigate(to.approval(id))}
      more={approvals.hasNextPage && !approvals.isFetching ? () => void approvals.fetchNextPage() : undefined}
    />
  )
}
