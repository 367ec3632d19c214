// What many pages ask. The first word of a key is the kind of thing, so that an event can mark all of its kind stale.
import { keepPreviousData, QueryClient, queryOptions } from '@tanstack/react-query'
import { api, taken } from './client'
import { ApiError } from './errors'
import { opensAs } from './page'

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (failures, error) => failures < 2 && error instanceof ApiError && error.retryable,
      placeholderData: keepPreviousData,
    },
  },
})

export const queries = {
  session: () =>
    queryOptions({
      queryKey: ['session'],
      queryFn: async ({ signal }) => {
        const session = await taken(api.GET('/api/v1/session', { signal }))
        if (session.me) opensAs(session.me)
        return session
      },
      staleTime: 60_000,
    }),
  waitingApprovals: () =>
    queryOptions({
      queryKey: ['approvals', 'count'],
      queryFn: ({ signal }) =>
        taken(api.GET('/api/v1/approvals/count', { params: { query: { state: 'open' } }, signal })),
      refetchInterval: 30_000,
    }),
}
