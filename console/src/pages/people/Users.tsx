// Users, and what an administrator does for one of them.
import { useInfiniteQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, None, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import { type User, usersQuery } from './queries'
import { UserDialog } from './UserDialog'

export function Users() {
  const users = useInfiniteQuery(usersQuery())
  const [chosen, setChosen] = useState<string>()
  if (users.isPending) return <SkeletonRows />
  if (users.isError) return <Problem error={users.error} retry={() => void users.refetch()} />
  const rows = users.data.pages.flatMap(({ items }) => items)
  const columns: readonly Column<User>[] = [
    { id: 'name', label: 'Name', width: 'minmax(140px, 1.4fr)', phone: true, cell: ({ name }) => name },
    { id: 'email', label: 'E-mail', width: 'minmax(140px, 1.4fr)', cell: ({ email }) => email ?? <None /> },
    {
      id: 'roles',
      label: 'Roles',
      width: 'minmax(120px, 1.2fr)',
      word: 'roles',
      cell: ({ roles }) => roles.join(', ') || 'none',
    },
    {
      id: 'state',
      label: 'Kind',
      width: '100px',
      cell: ({ disabled, kind }) =>
        disabled ? (
          <Badge tone="bad" shape="diamond">
            disabled
          </Badge>
        ) : (
          <Badge tone="idle" shape="none">
            {kind}
          </Badge>
        ),
    },
    { id: 'since', label: 'Since', width: '110px', word: 'since', cell: ({ created_at }) => <Time at={created_at} /> },
    {
      id: 'manage',
      label: '',
      width: '84px',
      align: 'right',
      phone: true,
      cell: (user) => (
        <Button size="small" aria-label={`Manage ${user.name}`} onPress={() => setChosen(user.id)}>
          Manage
        </Button>
      ),
    },
  ]
  const user = rows.find(({ id }) => id === chosen)
  return (
    <>
      <Table
        label="Users"
        columns={columns}
        cards
        rows={rows}
        rowKey={({ id }) => id}
        more={users.hasNextPage && !users.isFetching ? () => void users.fetchNextPage() : undefined}
      />
      {user && <UserDialog user={user} onClose={() => setChosen(undefined)} />}
    </>
  )
}
