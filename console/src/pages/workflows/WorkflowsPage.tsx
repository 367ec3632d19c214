// Every workflow: what it is for, and when it last changed.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Workflow } from 'lucide-react'
import { type Names, useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Empty } from '../../ui/Empty'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import { type WorkflowRow, workflowsQuery } from './queries'

const columnsFor = (nameOf: Names): readonly Column<WorkflowRow>[] => [
  {
    id: 'name',
    label: 'Workflow',
    width: 'minmax(140px, 1fr)',
    phone: true,
    cell: ({ name }) => <code>{revealed(name)}</code>,
  },
  {
    id: 'description',
    label: 'What it does',
    width: 'minmax(200px, 3fr)',
    cell: ({ description }) => (description ? revealed(description) : <None />),
  },
  {
    id: 'revision',
    label: 'Revision',
    width: '72px',
    align: 'right',
    phone: true,
    cell: ({ revision }) => revision,
  },
  { id: 'by', label: 'By', width: '120px', word: 'by', cell: ({ saved_by }) => revealed(nameOf(saved_by)) },
  {
    id: 'saved',
    label: 'Saved',
    width: '92px',
    align: 'right',
    word: 'saved',
    cell: ({ updated_at }) => <Time at={updated_at} />,
  },
]

export function WorkflowsPage() {
  const me = useMe()
  const nameOf = useNames()
  const navigate = useNavigate()
  const workflows = useQuery({ ...workflowsQuery(), enabled: may(me, 'tools.read') })
  const rows = workflows.data?.items ?? []
  return (
    <Page title="Workflows" count={workflows.isSuccess && rows.length > 0 ? `${rows.length}` : undefined}>
      {!may(me, 'tools.read') ? (
        <Empty title="You may not see workflows">
          That needs the permission <code>tools.read</code>, which the role <code>viewer</code> has.
        </Empty>
      ) : workflows.isError && rows.length === 0 ? (
        <Body narrow>
          <Problem error={workflows.error} retry={() => void workflows.refetch()} />
        </Body>
      ) : workflows.isPending ? (
        <SkeletonRows />
      ) : rows.length === 0 ? (
        <Empty
          icon={<Workflow aria-hidden="true" />}
          title="No workflows yet"
          command="toolgate workflow save examples/workflows/greet.yaml"
        >
          A workflow says once what happens in which order: tools, agents, conditions, lists, and questions to people.
          It is a file; saving it makes a revision.
        </Empty>
      ) : (
        <Table
          label="Workflows"
          columns={columnsFor(nameOf)}
          cards
          rows={rows}
          rowKey={({ name }) => name}
          rowLink={({ name }) => `/workflows/${encodeURIComponent(name)}`}
          onOpen={({ name }) => void navigate(to.workflow(name))}
        />
      )}
    </Page>
  )
}
