// Who is asked when an agent runs here: every provider of models, and whether a script stands in for one.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { Plus, Sparkles } from 'lucide-react'
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { ScriptedBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { notify } from '../../ui/Notices'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { SpecDialog } from '../agents/SpecDialog'
import { Connections } from '../connections/Connections'
import { addressOf, providerForm } from './kinds'
import { type Provider, providersQuery, saveProvider, useProviderChange } from './queries'

const COLUMNS: readonly Column<Provider>[] = [
  {
    id: 'name',
    label: 'Provider',
    width: 'minmax(140px, 1fr)',
    phone: true,
    cell: ({ name }) => <code>{name}</code>,
  },
  { id: 'kind', label: 'Kind', width: '150px', cell: ({ kind }) => <code>{kind}</code> },
  {
    id: 'where',
    label: 'Where',
    width: 'minmax(160px, 1.6fr)',
    cell: (provider) => revealed(addressOf(provider) ?? 'nobody is asked'),
  },
  {
    id: 'secret',
    label: 'Key',
    width: 'minmax(120px, 1fr)',
    word: 'key',
    cell: ({ secret }) => (secret ? <code>{revealed(secret)}</code> : <None />),
  },
  {
    id: 'prices',
    label: 'Prices',
    width: '64px',
    align: 'right',
    word: 'prices',
    cell: ({ prices }) => Object.keys(prices ?? {}).length,
  },
  { id: 'marks', label: '', width: '150px', phone: true, cell: (provider) => <Marks provider={provider} /> },
]

export function Marks({ provider: { scripted, offered } }: { provider: Provider }) {
  return (
    <>
      {scripted && <ScriptedBadge />}{' '}
      {offered && (
        <Badge
          tone="idle"
          shape="none"
          title="Of the operator; a provider of yours by the same name stands in front of it."
        >
          offered to all
        </Badge>
      )}
    </>
  )
}

export function ProvidersPage() {
  const me = useMe()
  const navigate = useNavigate()
  const providers = useQuery({ ...providersQuery(), enabled: may(me, 'agents.read') })
  const [isAdding, setAdding] = useState(false)
  const save = useProviderChange(saveProvider)
  const rows = providers.data?.items ?? []
  return (
    <Page
      title="Model providers"
      count={providers.isSuccess && rows.length > 0 ? `${rows.length}` : undefined}
      actions={
        <Button
          kind="primary"
          icon={<Plus aria-hidden="true" />}
          onPress={() => setAdding(true)}
          disabledReason={may(me, 'agents.manage') ? undefined : 'Authors and administrators add providers'}
        >
          Add a provider
        </Button>
      }
    >
      <Connections />
      {!may(me, 'agents.read') ? (
        <Empty title="You may not see providers">
          That needs the permission <code>agents.read</code>, which the role <code>viewer</code> has.
        </Empty>
      ) : providers.isError && rows.length === 0 ? (
        <Body narrow>
          <Problem error={providers.error} retry={() => void providers.refetch()} />
        </Body>
      ) : providers.isPending ? (
        <SkeletonRows />
      ) : rows.length === 0 ? (
        <Empty
          icon={<Sparkles aria-hidden="true" />}
          title="No model providers yet"
          command="toolgate provider add openai --kind openai_chat --secret OPENAI_API_KEY"
        >
          Agents that run here ask a model. A provider says where models are, which secret is the key, and what they
          cost. One of the kind <code>scripted</code> needs no key: it plays what you wrote.
        </Empty>
      ) : (
        <Table
          label="Model providers"
          columns={COLUMNS}
          cards
          rows={rows}
          rowKey={({ name, offered }) => `${name} ${offered}`}
          rowLink={({ name }) => `/providers/${encodeURIComponent(name)}`}
          onOpen={({ name }) => void navigate(to.provider(name))}
        />
      )}
      {isAdding && (
        <SpecDialog<Parameters<typeof saveProvider>[0]>
          title="Add a provider"
          component="Provider"
          shaped={providerForm}
          save={async (spec) => {
            const { name, secret } = await save.mutateAsync(spec)
            notify(secret ? 'Added. Set its key, then test it.' : 'Added. Test it.')
            void navigate(to.provider(name))
          }}
          onClose={() => setAdding(false)}
        />
      )}
    </Page>
  )
}
