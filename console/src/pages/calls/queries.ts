// What the pages of calls ask the server.
//
// The long list is asked page by page and never again as a whole: an event would otherwise fetch five hundred pages. What
// is new is asked by itself (`newest`), and waits behind a bar.
import {
  infiniteQueryOptions,
  keepPreviousData,
  queryOptions,
  useMutation,
  useQueryClient,
} from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { asked, type Chosen, isMeant } from './chosen'

export type CallRow = Schemas['CallSummary']
export type Call = Schemas['CallDetails']
export type CallEvent = Schemas['Event']

const PAGE_ROWS = 200
const NEWEST_ROWS = 100
const EVENT_PAGES_MAX = 5

export const callQueries = {
  pages: (chosen: Chosen) =>
    infiniteQueryOptions({
      queryKey: ['call-pages', chosen],
      queryFn: ({ pageParam, signal }) => listCalls(chosen, PAGE_ROWS, pageParam, signal),
      initialPageParam: '',
      getNextPageParam: (page) => page.next_cursor ?? undefined,
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: 60_000,
      refetchOnWindowFocus: false,
      placeholderData: keepPreviousData,
    }),
  newest: (chosen: Chosen) =>
    queryOptions({
      queryKey: ['calls', 'newest', chosen],
      queryFn: ({ signal }) => listCalls(chosen, NEWEST_ROWS, '', signal),
      refetchInterval: 30_000,
      placeholderData: () => undefined,
    }),
  one: (id: string) =>
    queryOptions({
      queryKey: ['calls', 'one', id],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/calls/{call}', { params: { path: { call: id } }, signal })),
      // A call that runs changes by itself; who may not follow the stream asks from time to time.
      refetchInterval: ({ state }) => (state.data && !isOpen(state.data.status) ? false : 3_000),
      placeholderData: () => undefined,
    }),
  events: (run: string, call: string, isDone: boolean) =>
    queryOptions({
      queryKey: ['calls', 'events', run, call, isDone],
      queryFn: ({ signal }) => eventsOf(run, call, signal),
      staleTime: isDone ? 60_000 : 0,
    }),
  proof: (id: string) =>
    queryOptions({
      queryKey: ['call-proof', id],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/calls/{call}/proof', { params: { path: { call: id } }, signal })),
      enabled: false,
      gcTime: 0,
    }),
  sections: (name: string, version: string) =>
    queryOptions({
      queryKey: ['tools', 'sections', name, version],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/tools/{tool}', { params: { path: { tool: name } }, signal })),
      staleTime: 60_000,
      retry: false,
    }),
  toolNames: () =>
    queryOptions({
      queryKey: ['tools', 'names'],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/tools', { params: { query: { limit: 500 } }, signal })),
      staleTime: 60_000,
    }),
  agentNames: (mayRead: boolean) =>
    queryOptions({
      queryKey: ['agents', 'names'],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/agents', { params: { query: { limit: 500 } }, signal })),
      enabled: mayRead,
      staleTime: 60_000,
    }),
}

export async function listCalls(
  chosen: Chosen,
  limit: number,
  cursor: string,
  signal: AbortSignal,
): Promise<Schemas['Page_CallSummary']> {
  const query = { ...asked(chosen), limit, ...(cursor === '' ? {} : { cursor }) }
  const page = await taken(api.GET('/api/v1/calls', { params: { query }, signal }))
  const items = page.items.filter((call) => isMeant(chosen, call))
  // A page of which nothing is left would look like the end of the list.
  if (items.length === 0 && page.next_cursor) return listCalls(chosen, limit, page.next_cursor, signal)
  return { ...page, items }
}

/** A run's events are read in its order; of a long run the first few thousand, which is where a call's own mostly are. */
async function eventsOf(run: string, call: string, signal: AbortSignal): Promise<CallEvent[]> {
  const found: CallEvent[] = []
  let after = 0
  for (let page = 0; page < EVENT_PAGES_MAX; page += 1) {
    const { items, next_after } = await taken(
      api.GET('/api/v1/runs/{run}/events', { params: { path: { run }, query: { after } }, signal }),
    )
    found.push(...items.filter(({ call_id }) => call_id === call))
    if (!next_after || items.length === 0) break
    after = next_after
  }
  return found
}

export function isOpen(status: string): boolean {
  return ['pending', 'approved', 'running'].includes(status)
}

/** Does something to a call, then asks anew about everything that tells of calls. */
export function useCallChange<Asked>(change: (asked: Asked) => Promise<unknown>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSettled: () => {
      for (const kind of ['calls', 'runs', 'approvals', 'home']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}

export const cancelCall = (id: string) =>
  taken(api.POST('/api/v1/calls/{call}/cancel', { params: { path: { call: id } } }))

export const settleCall = ({ id, ...body }: { id: string; status: 'completed' | 'failed'; reason: string }) =>
  taken(api.POST('/api/v1/calls/{call}/settle', { params: { path: { call: id } }, body }))
