// Signing in, as the server offers it. After each of these the session is another one, so all that was read is dropped.
import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, taken } from '../../api/client'
import { ApiError } from '../../api/errors'
import { opensAnew } from '../../api/page'

export const waysQuery = () =>
  queryOptions({
    queryKey: ['ways'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/session/ways', { signal })),
  })

/** A change of who is signed in: sends it, then forgets everything that somebody else may have read. */
export function useSessionChange<Input>(send: (input: Input) => Promise<unknown>, after: () => void) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: send,
    onSuccess: () => {
      opensAnew()
      client.clear()
      after()
    },
  })
}

/** Whom a one-time link signs in. Asking spends nothing. */
export const linkQuery = (token: string) =>
  queryOptions({
    queryKey: ['link', token],
    queryFn: ({ signal }) => taken(api.POST('/api/v1/session/link', { body: { token }, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })

export const spendLink = (token: string) => taken(api.POST('/api/v1/sign-in', { body: { token } }))

export const signInByPassword = (body: { user: string; password: string; tenant?: string }) =>
  taken(api.POST('/api/v1/session/password', { body }))

/** The tenants that an address and its password open, where the server asks which one is meant. */
export function tenantsOf(error: unknown): string[] {
  if (!(error instanceof ApiError) || error.status !== 409) return []
  const details = error.problem?.details as { tenants?: unknown } | null | undefined
  return Array.isArray(details?.tenants) ? details.tenants.filter((slug) => typeof slug === 'string') : []
}

/** Leaves for the provider of identities, which comes back to `return_to`. */
export async function leaveForProvider(return_to: string): Promise<void> {
  const { url } = await taken(api.POST('/api/v1/session/oidc', { body: { return_to } }))
  window.location.assign(url)
}

export const askForReset = (user: string) => taken(api.POST('/api/v1/session/reset', { body: { user } }))

export const finishReset = (body: { token: string; password: string }) =>
  taken(api.POST('/api/v1/session/reset/finish', { body }))

export const invitationQuery = (token: string) =>
  queryOptions({
    queryKey: ['invitation', token],
    queryFn: () => taken(api.POST('/api/v1/session/invitation', { body: { token } })),
    retry: false,
  })

export const acceptInvitation = (body: { token: string; name: string; password: string }) =>
  taken(api.POST('/api/v1/session/invitation/accept', { body }))
