// What the library asks the server.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'

export type ToolRow = Schemas['ToolSummary']

/** The part of the address that chooses tools. */
export interface Chosen {
  q?: string
  category?: string
  risk?: string
  class?: string
  origin?: string
  state?: string
  kind?: string
  deprecated?: string
}

const PAGE_ROWS = 200
/** Everything, also what is switched off: a state of the filter, not of a tool. */
export const OFF_TOO = 'off'

export const toolQueries = {
  list: (chosen: Chosen) =>
    infiniteQueryOptions({
      queryKey: ['tools', 'list', chosen],
      queryFn: ({ pageParam, signal }) =>
        taken(
          api.GET('/api/v1/tools', {
            params: { query: { ...asked(chosen), limit: PAGE_ROWS, ...(pageParam ? { cursor: pageParam } : {}) } },
            signal,
          }),
        ),
      initialPageParam: '',
      getNextPageParam: (page) => page.next_cursor ?? undefined,
      staleTime: 15_000,
    }),
  categories: () =>
    queryOptions({
      queryKey: ['tools', 'categories'],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/categories', { signal })),
      staleTime: 60_000,
    }),
}

/** The address's words in the API's. */
export function asked({ q, category, risk, class: egressClass, origin, state, kind, deprecated }: Chosen) {
  const words = {
    q,
    category,
    risk: risk as Schemas['Risk'] | undefined,
    class: egressClass as Schemas['EgressClass'] | undefined,
    origin: origin as undefined,
    type: kind as Schemas['ToolType'] | undefined,
    state: (state === OFF_TOO ? undefined : state) as Schemas['ToolState'] | undefined,
    all: state === OFF_TOO ? true : undefined,
    deprecated: deprecated && !state ? true : undefined,
    // What is stopped is listed and says so: people look for it.
    stopped: true,
  }
  return Object.fromEntries(
    Object.entries(words).filter(([, value]) => value !== undefined && value !== ''),
  ) as Partial<NonNullable<{ [name in keyof typeof words]: Exclude<(typeof words)[name], undefined> }>>
}
