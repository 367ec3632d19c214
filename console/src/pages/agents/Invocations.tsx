// What the agent called, newest first.
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { History } from 'lucide-react'
import { to } from '../../paths'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { Table } from '../../ui/Table'
import { columnsOf } from '../calls/columns'
import css from './agents.module.css'
import { agentCallsQuery } from './queries'

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
        columns={columnsOf(rows).filter(({ id }) => id !== 'who')}
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
