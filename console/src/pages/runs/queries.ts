// What the pages of runs ask the server.
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { ApiError } from '../../api/errors'
import type { Json } from '../../form/json'

export type RunRow = Schemas['RunSummary']
export type RunView = Schemas['RunView']
export type Question = Schemas['Question']
export type RunEvent = Schemas['Event']
export type AgentRun = Schemas['AgentRunView']
export type Turn = Schemas['TurnView']

export interface Chosen {
  state?: string
  kind?: string
  agent?: string
}

const PAGE_ROWS = 100
const CALL_PAGES_MAX = 5
const TURN_PAGES_MAX = 5
/** How many of its calls a run's own answer holds. */
const SHOWN_CALLS = 200

export const runQueries = {
  // As with calls: pages are read once, what is new waits behind a bar.
  pages: (chosen: Chosen) =>
    infiniteQueryOptions({
      queryKey: ['run-pages', chosen],
      queryFn: ({ pageParam, signal }) => list(chosen, pageParam, signal),
      initialPageParam: '',
      getNextPageParam: (page) => page.next_cursor ?? undefined,
      staleTime: Number.POSITIVE_INFINITY,
      gcTime: 60_000,
      refetchOnWindowFocus: false,
    }),
  newest: (chosen: Chosen) =>
    queryOptions({
      queryKey: ['runs', 'newest', chosen],
      queryFn: ({ signal }) => list(chosen, '', signal),
      refetchInterval: 30_000,
      placeholderData: () => undefined,
    }),
  one: (id: string) =>
    queryOptions({
      queryKey: ['runs', 'one', id],
      queryFn: ({ signal }) => whole(id, signal),
      refetchInterval: ({ state }) => (state.data && isEnded(state.data.state) ? false : 5_000),
      placeholderData: () => undefined,
    }),
  questions: (run: string) =>
    queryOptions({
      queryKey: ['runs', 'questions', run],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/inputs', { params: { query: { run, limit: 200 } }, signal })),
    }),
  /** Of a run that an agent's model drives: other runs have none. */
  outputs: (run: string) =>
    queryOptions({
      queryKey: ['runs', 'outputs', run],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/runs/{run}/outputs', { ...byId(run), signal })),
      placeholderData: () => undefined,
    }),
  /** What a run's model was asked and what it answered. Of a run that has ended it is read once. */
  turns: (run: string, isEnded: boolean) =>
    queryOptions({
      queryKey: isEnded ? ['ended-turns', run] : ['runs', 'turns', run],
      queryFn: ({ signal }) => turnsOf(run, signal),
      placeholderData: () => undefined,
      ...(isEnded ? { staleTime: Number.POSITIVE_INFINITY } : {}),
    }),
  workflow: (run: string) =>
    queryOptions({
      queryKey: ['runs', 'workflow', run],
      queryFn: ({ signal }) => nodesOf(run, signal),
      placeholderData: () => undefined,
    }),
}

/** How the nodes of a workflow's run stand; nothing where the run is of another kind after all. */
async function nodesOf(run: string, signal: AbortSignal): Promise<Schemas['WorkflowRunView'] | null> {
  try {
    return await taken(api.GET('/api/v1/runs/{run}/workflow', { ...byId(run), signal }))
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

async function turnsOf(run: string, signal: AbortSignal): Promise<readonly Turn[]> {
  const turns: Turn[] = []
  let cursor: string | undefined
  for (let page = 0; page < TURN_PAGES_MAX; page += 1) {
    const query = { limit: PAGE_ROWS, ...(cursor ? { cursor } : {}) }
    const found = await taken(api.GET('/api/v1/runs/{run}/turns', { params: { path: { run }, query }, signal }))
    turns.push(...found.items)
    cursor = found.next_cursor ?? undefined
    if (!cursor) break
  }
  return turns
}

const byId = (run: string) => ({ params: { path: { run } } })

function list({ state, agent, kind }: Chosen, cursor: string, signal: AbortSignal) {
  const query = {
    limit: PAGE_ROWS,
    ...(state ? { state: state as Schemas['RunState'] } : {}),
    ...(agent ? { agent } : {}),
    ...(kind ? { kind: kind as Schemas['RunKind'] } : {}),
    ...(cursor === '' ? {} : { cursor }),
  }
  return taken(api.GET('/api/v1/runs', { params: { query }, signal }))
}

/** The run with more of its calls than its own answer holds, as far as a timeline can show them. */
async function whole(id: string, signal: AbortSignal): Promise<RunView & { isCut: boolean }> {
  const view = await taken(api.GET('/api/v1/runs/{run}', { params: { path: { run: id } }, signal }))
  if (view.calls.length < SHOWN_CALLS) return { ...view, isCut: false }
  const calls: RunView['calls'] = []
  let cursor: string | undefined
  for (let page = 0; page < CALL_PAGES_MAX; page += 1) {
    const query = { run: id, limit: 500, ...(cursor ? { cursor } : {}) }
    const { items, next_cursor } = await taken(api.GET('/api/v1/calls', { params: { query }, signal }))
    calls.push(...items)
    cursor = next_cursor ?? undefined
    if (!cursor) break
  }
  return { ...view, calls, isCut: cursor !== undefined }
}

export function isEnded(state: string): boolean {
  return ['completed', 'failed', 'cancelled'].includes(state)
}

export function useRunChange<Asked, Told>(change: (asked: Asked) => Promise<Told>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSettled: () => {
      for (const kind of ['runs', 'calls', 'approvals', 'home']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}

export const endRun = ({ id, reason }: { id: string; reason: string }) =>
  taken(
    api.PUT('/api/v1/runs/{run}/state', {
      params: { path: { run: id } },
      body: { state: 'cancelled', ...(reason === '' ? {} : { reason }) },
    }),
  )

export const answerQuestion = ({ id, answer }: { id: string; answer: Json }) =>
  taken(
    api.POST('/api/v1/inputs/{input}/answer', {
      params: { path: { input: id } },
      // The description knows only that it is JSON.
      body: { answer: answer as Record<string, never> },
    }),
  )

export const beginRun = ({ agent, prompt, title }: { agent: string; prompt: string; title: string }) =>
  taken(
    api.POST('/api/v1/agents/{agent}/runs', {
      params: { path: { agent } },
      body: {
        prompt,
        title: title === '' ? null : title,
        labels: [],
        limits: {},
        parent_run_id: null,
        request_id: null,
        variables: null,
      },
    }),
  )

export const resumeRun = (run: string) => taken(api.POST('/api/v1/runs/{run}/resume', byId(run)))

/** The whole run as one signed document, as the server wrote it. */
export const bundleOf = (run: string) =>
  taken(api.GET('/api/v1/runs/{run}/bundle', { ...byId(run), parseAs: 'text' })) as Promise<unknown> as Promise<string>
