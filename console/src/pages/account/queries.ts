// One's own sessions and password.
import { queryOptions } from '@tanstack/react-query'
import { api, taken } from '../../api/client'

export const sessionsQuery = () =>
  queryOptions({
    queryKey: ['sessions'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/sessions', { signal })),
  })

export const signOut = () => taken(api.POST('/api/v1/sign-out'))
export const signOutEverywhere = () => taken(api.DELETE('/api/v1/sessions'))
export const endSession = (id: string) =>
  taken(api.DELETE('/api/v1/sessions/{session}', { params: { path: { session: id } } }))

export const changePassword = (body: { present?: string; password: string }) =>
  taken(api.PUT('/api/v1/me/password', { body }))
