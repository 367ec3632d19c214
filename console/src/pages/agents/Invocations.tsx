// What the agent called, newest first.
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { History } from 'lucide-react'
import type { Schemas } from '../../api/client'
import { duration } from '../../lib/time'
import { to } from '../../paths'
import { AnswerBadge, CallBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import css from './agents.module.css'
import { agentCallsQuery } from './queries'

type Call = Schemas['CallSummary']

const COLUMNS: readonly Column<Call>[] = [
  { id: 'when', label: 'When', width: '110px', phone: true, cell: ({ created_at }) => <Time at={created_at} /> },
  {
    id: 'tool',
    label: 'Tool',
    width: 'minmax(140px, 1.4fr)',
    phone: true,
    cell: ({ tool_name }) => <code>{tool_name}</code>,
  },
  { id: 'status', label: 'Status', width: '150px', phone: true, cell: status },
  { id: 'approval', label: 'Approval', width: '120px', cell: (call) => <AnswerBadge status={call.approval_status} /> },
  { id: 'step', label: 'Step', width: 'minmax(80px, 1fr)', cell: ({ step_title }) => step_title ?? '' },
  { id: 'took', label: 'Took', width: '80px', align: 'right', cell: took },
  { id: 'cost', label: 'Cost', width: '80px', align: 'right', cell: ({ cost }) => cost ?? '' },
]

function status({ status: state, error_code }: Call) {
  return <CallBadge status={state} error={error_code} />
}

/** A column in which no call has anything is left out. */
function columnsOf(calls: readonly Call[]): readonly Column<Call>[] {
  const has: Record<string, boolean> = {
    step: calls.some(({ step_title }) => step_title),
    cost: calls.some(({ cost }) => cost),
  }
  return COLUMNS.filter(({ id }) => has[id] ?? true)
}

function took({ started_at, completed_at }: Call): string {
  return started_at && completed_at ? duration(Date.parse(completed_at) - Date.parse(started_at)) : ''
}

export function Invocations({ agent }: { agent: string }) {
  const navigate = useNavigate()
  const calls = useInfiniteQuery(agentCallsQuery(agent))
  if (calls.isPending) return <SkeletonRows />
  if (calls.isError) return <Problem error={calls.error} retry={() => void calls.refetch()} />
  const rows = calls.data.pages.flatMap(({ items }) => items)
  if (rows.length === 0) {
    return (
      <Empty
        icon={<History aria-hidden="true" />}
        title="It has called nothing yet"
        command={'toolgate call echo --input \'{"text":"hello"}\''}
      >
        Give it a key, and let it call a tool.
      </Empty>
    )
  }
  return (
    <>
      <div className={css.bar}>
        <Link {...to.calls({ agent })}>All its calls, with filters</Link>
      </div>
      <Table
        label="Invocations"
        columns={columnsOf(rows)}
        cards
        rows={rows}
        rowKey={({ id }) => id}
        rowLink={({ id }) => `/calls/${id}`}
        onOpen={({ id }) => void navigate(to.call(id))}
        more={calls.hasNextPage && !calls.isFetching ? () => void calls.fetchNextPage() : undefined}
      />
    </>
  )
}
