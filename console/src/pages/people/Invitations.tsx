// Invitations: which wait, which were taken, and the link again for one that got lost.
import { useInfiniteQuery } from '@tanstack/react-query'
import { MailOpen } from 'lucide-react'
import { Badge, type Tone } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import css from './people.module.css'
import { invitationsQuery, inviteAgain, revokeInvitation, usePeopleChange } from './queries'
import { SecretLink } from './SecretLink'

const TONES: Record<string, Tone> = { open: 'warn', accepted: 'ok', revoked: 'idle', expired: 'idle' }

export function Invitations() {
  const invitations = useInfiniteQuery(invitationsQuery())
  const again = usePeopleChange(inviteAgain, ({ mailed_to }) => (mailed_to ? `Sent to ${mailed_to}.` : undefined))
  const revoke = usePeopleChange(revokeInvitation, ({ name }) => `The invitation of ${name} is taken back.`)
  if (invitations.isPending) return <SkeletonRows />
  if (invitations.isError) return <Problem error={invitations.error} retry={() => void invitations.refetch()} />
  const rows = invitations.data.pages.flatMap(({ items }) => items)
  if (rows.length === 0) {
    return (
      <Empty
        icon={<MailOpen aria-hidden="true" />}
        title="Nobody is invited"
        command="toolgate user invite NAME --role member"
      >
        An invitation is a link that works once, for seven days. Its holder chooses a password and is in.
      </Empty>
    )
  }
  const columns: readonly Column<(typeof rows)[number]>[] = [
    { id: 'name', label: 'Name', width: 'minmax(140px, 1.4fr)', phone: true, cell: ({ name }) => name },
    { id: 'email', label: 'E-mail', width: 'minmax(120px, 1.2fr)', cell: ({ email }) => email ?? <None /> },
    {
      id: 'roles',
      label: 'Roles',
      width: 'minmax(100px, 1fr)',
      word: 'roles',
      cell: ({ roles }) => roles.join(', ') || 'none',
    },
    {
      id: 'state',
      label: 'State',
      width: '96px',
      phone: true,
      cell: ({ state }) => <Badge tone={TONES[state] ?? 'idle'}>{state}</Badge>,
    },
    { id: 'ends', label: 'Ends', width: '100px', word: 'ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
    {
      id: 'act',
      label: '',
      width: '170px',
      align: 'right',
      cell: ({ id, state }) =>
        state === 'open' || state === 'expired' ? (
          <span className={css.acts}>
            <Button size="small" onPress={() => again.mutate(id)}>
              New link
            </Button>
            {state === 'open' && (
              <Button size="small" onPress={() => revoke.mutate(id)}>
                Take back
              </Button>
            )}
          </span>
        ) : null,
    },
  ]
  const failed = [again, revoke].find(({ isError }) => isError)
  return (
    <>
      {failed && <Problem error={failed.error} />}
      <Table
        label="Invitations"
        columns={columns}
        cards
        rows={rows}
        rowKey={({ id }) => id}
        more={invitations.hasNextPage && !invitations.isFetching ? () => void invitations.fetchNextPage() : undefined}
      />
      {again.data?.url && (
        <Dialog title="A new link" isOpen onClose={again.reset} actions={<Button onPress={again.reset}>Done</Button>}>
          <SecretLink words="Hand it over; the one before no longer works." url={again.data.url} />
        </Dialog>
      )}
    </>
  )
}
