// Who may use this tenant: users, invitations, and what an administrator does for them.
import { infiniteQueryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { withStepUp } from '../../app/StepUp'
import { notify } from '../../ui/Notices'

export type User = Schemas['User']
export type Role = Schemas['Role']

const PAGE = 100

export const usersQuery = () =>
  infiniteQueryOptions({
    queryKey: ['users'],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/users', { params: { query: { limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: {} as { cursor?: string },
    getNextPageParam: ({ next_cursor }) => (next_cursor ? { cursor: next_cursor } : undefined),
  })

export const invitationsQuery = () =>
  infiniteQueryOptions({
    queryKey: ['invitations'],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/invitations', { params: { query: { limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: {} as { cursor?: string },
    getNextPageParam: ({ next_cursor }) => (next_cursor ? { cursor: next_cursor } : undefined),
  })

const user = (name: string) => ({ params: { path: { user: name } } })

export const makeSignInLink = (id: string) => taken(api.POST('/api/v1/users/{user}/sign-in-link', user(id)))
export const resetPassword = (id: string) =>
  taken(api.POST('/api/v1/users/{user}/reset', { ...user(id), body: { show: false } }))
export const endSessionsOf = (id: string) => taken(api.DELETE('/api/v1/users/{user}/sessions', user(id)))
export const editUser = ({ id, ...body }: { id: string } & Schemas['UserEditRequest']) =>
  taken(api.PATCH('/api/v1/users/{user}', { ...user(id), body }))

export const invite = (body: { name: string; email?: string; roles: Role[] }) =>
  taken(api.POST('/api/v1/invitations', { body }))
export const inviteAgain = (id: string) =>
  taken(
    api.POST('/api/v1/invitations/{invitation}/resend', {
      params: { path: { invitation: id } },
      body: { show: false },
    }),
  )
export const revokeInvitation = (id: string) =>
  taken(api.DELETE('/api/v1/invitations/{invitation}', { params: { path: { invitation: id } } }))

/** A change to people: sends it, says so, and lets the lists be read again. */
export function usePeopleChange<Input, Output>(
  send: (input: Input) => Promise<Output>,
  said: (output: Output) => string | undefined,
) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (input: Input) => withStepUp(() => send(input)),
    onSuccess: (output) => {
      const words = said(output)
      if (words) notify(words)
      void client.invalidateQueries({ queryKey: ['users'] })
      void client.invalidateQueries({ queryKey: ['invitations'] })
    },
  })
}
