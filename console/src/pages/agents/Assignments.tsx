// What was assigned to the agent, by whom, under which profile.
import { useInfiniteQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Link2 } from 'lucide-react'
import { useState } from 'react'
import { useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import css from './agents.module.css'
import { type Assignment, assignmentsQuery, unassign, useAgentChange } from './queries'
import { AssignDialog } from './Registry'

export function Assignments({ agent }: { agent: string }) {
  const me = useMe()
  const navigate = useNavigate()
  const nameOf = useNames()
  const assignments = useInfiniteQuery(assignmentsQuery(agent))
  const taken = useAgentChange(unassign, 'The assignment is taken back.')
  const [changing, setChanging] = useState<Assignment>()
  if (assignments.isPending) return <SkeletonRows />
  if (assignments.isError) return <Problem error={assignments.error} retry={() => void assignments.refetch()} />
  const rows = assignments.data.pages.flatMap(({ items }) => items)
  if (rows.length === 0) {
    return (
      <Empty
        icon={<Link2 aria-hidden="true" />}
        title="Nothing is assigned"
        command={`toolgate tool assign --tool echo --agent ${agent}`}
      >
        An assignment gives this agent one tool, optionally under a profile. The Registry tab assigns too.
      </Empty>
    )
  }
  const refused = may(me, 'tools.assign') ? undefined : 'Administrators assign tools'
  const by = ({ created_by, created_by_name }: Assignment) => revealed(created_by_name ?? nameOf(created_by))
  const columns: readonly Column<Assignment>[] = [
    { id: 'tool', label: 'Tool', width: 'minmax(140px, 1.4fr)', phone: true, cell: ({ tool }) => <code>{tool}</code> },
    {
      id: 'profile',
      label: 'Profile',
      width: 'minmax(100px, 1fr)',
      cell: ({ profile }) =>
        profile ? (
          <Badge tone="info" shape="none">
            {profile}
          </Badge>
        ) : (
          <None />
        ),
    },
    { id: 'by', label: 'By', width: 'minmax(100px, 1fr)', word: 'by', cell: by },
    { id: 'when', label: 'When', width: '110px', cell: ({ created_at }) => <Time at={created_at} /> },
    {
      id: 'act',
      label: '',
      width: '180px',
      align: 'right',
      cell: (assignment) => (
        <span className={css.acts}>
          <Button size="small" disabledReason={refused} onPress={() => setChanging(assignment)}>
            Profile
          </Button>
          <Button
            size="small"
            disabledReason={refused}
            aria-label={`Take ${assignment.tool} back`}
            onPress={() => taken.mutate({ agent, tool: assignment.tool })}
          >
            Take back
          </Button>
        </span>
      ),
    },
  ]
  return (
    <div className={css.profiles}>
      {taken.isError && <Problem error={taken.error} />}
      <Table
        label="Assignments"
        columns={columns}
        cards
        rows={rows}
        rowKey={({ tool_id }) => tool_id}
        rowLink={({ tool }) => `/tools/${encodeURIComponent(tool)}`}
        onOpen={({ tool }) => void navigate(to.tool(tool))}
        more={assignments.hasNextPage && !assignments.isFetching ? () => void assignments.fetchNextPage() : undefined}
      />
      {changing && (
        <AssignDialog
          agent={agent}
          tool={changing.tool}
          profile={changing.profile ?? ''}
          onClose={() => setChanging(undefined)}
        />
      )}
    </div>
  )
}
