// Servers of others behind the gate, and how each stands.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Plus, Server } from 'lucide-react'
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { Empty } from '../../ui/Empty'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import { Connections } from '../connections/Connections'
import { type Upstream, upstreamsQuery } from './queries'
import { standingOf, whereOf } from './standing'
import { UpstreamDialog } from './UpstreamDialog'

const COLUMNS: readonly Column<Upstream>[] = [
  {
    id: 'name',
    label: 'Server',
    width: 'minmax(140px, 1fr)',
    phone: true,
    cell: ({ name }) => <code>{revealed(name)}</code>,
  },
  {
    id: 'standing',
    label: 'Standing',
    width: '190px',
    phone: true,
    cell: (upstream) => <StandingBadge upstream={upstream} />,
  },
  {
    id: 'where',
    label: 'Where',
    width: 'minmax(180px, 2fr)',
    cell: (upstream) => revealed(whereOf(upstream)),
  },
  {
    id: 'answered',
    label: 'Last answered',
    width: '110px',
    align: 'right',
    word: 'answered',
    cell: ({ health }) => (health?.last_success_at ? <Time at={health.last_success_at} /> : <None />),
  },
]

export function StandingBadge({ upstream }: { upstream: Upstream }) {
  const { tone, shape, words, about } = standingOf(upstream)
  return (
    <Badge tone={tone} shape={shape} title={about}>
      {words}
    </Badge>
  )
}

export function UpstreamsPage() {
  const me = useMe()
  const navigate = useNavigate()
  const mayEdit = may(me, 'upstreams.edit')
  const upstreams = useQuery({ ...upstreamsQuery(), enabled: mayEdit })
  const [isAdding, setAdding] = useState(false)
  const rows = upstreams.data?.items ?? []
  return (
    <Page
      title="Servers"
      count={upstreams.isSuccess && rows.length > 0 ? `${rows.length}` : undefined}
      actions={
        <Button
          kind="primary"
          icon={<Plus aria-hidden="true" />}
          disabledReason={mayEdit ? undefined : 'Operators connect servers'}
          onPress={() => setAdding(true)}
        >
          Connect a server
        </Button>
      }
    >
      <Connections />
      {!mayEdit ? (
        <Empty title="Operators look after servers">
          That needs the permission <code>upstreams.edit</code>, which the role <code>operator</code> has. Their tools
          are among your tools.
        </Empty>
      ) : upstreams.isError && rows.length === 0 ? (
        <Body narrow>
          <Problem error={upstreams.error} retry={() => void upstreams.refetch()} />
        </Body>
      ) : upstreams.isPending ? (
        <SkeletonRows />
      ) : rows.length === 0 ? (
        <Empty
          icon={<Server aria-hidden="true" />}
          title="No servers yet"
          command="toolgate upstream add issues --url https://mcp.example.com/mcp"
        >
          A server that speaks the Model Context Protocol offers tools. Behind the gate they are tools here: listed,
          asked about, limited and logged like all others.
        </Empty>
      ) : (
        <Table
          label="Servers"
          columns={COLUMNS}
          cards
          rows={rows}
          rowKey={({ name }) => name}
          rowLink={({ name }) => `/upstreams/${encodeURIComponent(name)}`}
          onOpen={({ name }) => void navigate(to.upstream(name))}
        />
      )}
      {isAdding && (
        <UpstreamDialog onSaved={({ name }) => void navigate(to.upstream(name))} onClose={() => setAdding(false)} />
      )}
    </Page>
  )
}
