// Who somebody is, by the name that people know them by. Most answers bring names along; where one has only `user:ID`,
// the list of people tells, for who may read it.
import { useQuery } from '@tanstack/react-query'
import { api, taken } from '../api/client'
import { type Me, may, useMe } from './session'

const NAMES_MAX = 500

export type Names = (principal: string) => string

export function useNames(): Names {
  const me = useMe()
  const users = useQuery({
    queryKey: ['users', 'names'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/users', { params: { query: { limit: NAMES_MAX } }, signal })),
    enabled: may(me, 'members.manage'),
    staleTime: 60_000,
  }).data?.items
  return (principal) => nameOf(principal, me, users ?? [])
}

/** The name; failing that, what kind of principal it is and the end of its id, which is enough to tell two apart. */
export function nameOf(
  principal: string,
  me: Pick<Me, 'principal' | 'name'>,
  users: readonly { id: string; name: string }[],
): string {
  if (principal === me.principal) return me.name
  // The owner of a thing is always a user, and written by the id alone.
  const [kind = '', id = ''] = principal.includes(':') ? principal.split(':', 2) : ['user', principal]
  if (kind === 'user' && me.principal === `user:${id}`) return me.name
  const known = kind === 'user' ? users.find((user) => user.id === id) : undefined
  if (known) return known.name
  return /^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id) ? `${kind} …${id.slice(-8)}` : principal
}
