// This tool's calls, newest first and live: new ones wait behind a bar, so that nothing moves under the pointer.
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { History } from 'lucide-react'
import { useCallback } from 'react'
import type { Schemas } from '../../api/client'
import { duration } from '../../lib/time'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { CallBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Body } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import type { Tool } from './definition'
import { useHeld } from './held'
import { toolQueries } from './queries'
import css from './ToolPage.module.css'

type Call = Schemas['CallSummary']

const COLUMNS: readonly Column<Call>[] = [
  { id: 'when', label: 'When', width: '110px', phone: true, cell: ({ created_at }) => <Time at={created_at} /> },
  {
    id: 'status',
    label: 'Status',
    width: '160px',
    phone: true,
    cell: ({ status, error_code }) => <CallBadge status={status} error={error_code} />,
  },
  { id: 'by', label: 'By', width: 'minmax(120px, 1fr)', cell: (call) => <span>{caller(call)}</span> },
  { id: 'from', label: 'From', width: '80px', cell: ({ source }) => <span className={css.quiet}>{source}</span> },
  { id: 'version', label: 'Version', width: '80px', cell: ({ tool_version }) => <code>{tool_version}</code> },
  {
    id: 'why',
    label: 'Error',
    width: '150px',
    cell: ({ error_code, status }) => status !== 'cancelled' && error_code && <code>{error_code}</code>,
  },
  { id: 'took', label: 'Took', width: '80px', align: 'right', cell: took },
  {
    id: 'again',
    label: 'Again',
    width: '70px',
    phone: true,
    align: 'right',
    cell: ({ id, tool_key }) => (
      <Link
        {...to.tool(tool_key)}
        search={{ again: id }}
        className={css.again}
        aria-label={`Run again with this input`}
      >
        Again
      </Link>
    ),
  },
]

// Names where the server gives them: an id says little.
function caller({ principal, ...call }: Call): string {
  const named = call as { principal_name?: string | null; agent_name?: string | null }
  return named.agent_name ?? named.principal_name ?? principal
}

function took({ started_at, completed_at, mode, cached }: Call) {
  if (mode === 'dry_run') return <span className={css.quiet}>dry run</span>
  if (cached) return <span className={css.quiet}>cached</span>
  if (!started_at || !completed_at) return null
  return duration(new Date(completed_at).getTime() - new Date(started_at).getTime())
}

export function HistoryTab({ tool }: { tool: Tool }) {
  const navigate = useNavigate()
  const found = useInfiniteQuery(toolQueries.history(tool.name))
  const all = found.data?.pages.flatMap(({ items }) => items)
  const { rows, fresh, take } = useHeld(all)
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = found
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage()
  }, [hasNextPage, isFetchingNextPage, fetchNextPage])
  if (found.isError && !all) {
    return (
      <Body narrow>
        <Problem error={found.error} retry={() => void found.refetch()} />
      </Body>
    )
  }
  if (!all) return <SkeletonRows />
  if (all.length === 0) {
    return (
      <Empty
        icon={<History aria-hidden="true" />}
        title="Nobody has called it yet"
        command={`toolgate calls list --tool ${tool.name}`}
      >
        Calls by people, agents and keys appear here as they are made. You see your own, those of agents you manage, and
        with <code>calls.read.all</code> everybody’s.
      </Empty>
    )
  }
  return (
    <>
      <div role="status" className={fresh > 0 ? css.fresh : 'visually-hidden'}>
        {fresh > 0 && (
          <Button kind="quiet" size="small" onPress={take}>
            {fresh} new
          </Button>
        )}
      </div>
      <Table
        label={`Calls of ${tool.name}`}
        columns={COLUMNS}
        rows={rows}
        rowKey={({ id }) => id}
        rowLink={({ id }) => `/calls/${id}`}
        onOpen={({ id }) => void navigate(to.call(id))}
        more={more}
      />
    </>
  )
}
