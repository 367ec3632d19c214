// What the page of a tool asks the server.
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { ApiError } from '../../api/errors'
import { readTool, type Tool } from './definition'

const HISTORY_ROWS = 100
const VERSIONS_MAX = 200
const OPEN_EVERY_MS = 5_000

/** `name`, or `name@version`. */
export function reference(name: string, version: string | undefined): string {
  return version ? `${name}@${version}` : name
}

export const FINAL = new Set<string>(['completed', 'failed', 'rejected', 'cancelled', 'outcome_unknown'])

export const toolQueries = {
  /** With `all`, also what is switched off or blocked; for those who may change that. */
  one: (tool: string, all: boolean) =>
    queryOptions({
      queryKey: ['tools', 'one', tool, all],
      queryFn: async ({ signal }): Promise<Tool> => {
        const query = all ? { all } : {}
        const found = readTool(
          await taken(api.GET('/api/v1/tools/{tool}', { params: { path: { tool }, query }, signal })),
        )
        if (!found) throw new ApiError(500, undefined, 'the server answered with something that is no tool')
        return found
      },
    }),
  preflight: (tool: string) =>
    queryOptions({
      queryKey: ['tools', 'preflight', tool],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/tools/{tool}/preflight', { params: { path: { tool } }, signal })),
    }),
  versions: (tool: string) =>
    queryOptions({
      queryKey: ['tools', 'versions', tool],
      queryFn: ({ signal }) =>
        taken(
          api.GET('/api/v1/tools/{tool}/versions', {
            params: { path: { tool }, query: { limit: VERSIONS_MAX } },
            signal,
          }),
        ),
    }),
  difference: (tool: string, from: string, to: string) =>
    queryOptions({
      queryKey: ['tools', 'difference', tool, from, to],
      queryFn: ({ signal }) =>
        taken(api.GET('/api/v1/tools/{tool}/diff', { params: { path: { tool }, query: { from, to } }, signal })),
      staleTime: Number.POSITIVE_INFINITY,
    }),
  rendering: (tool: string, form: string, all: boolean) =>
    queryOptions({
      queryKey: ['tools', 'rendering', tool, form, all],
      queryFn: async ({ signal }): Promise<string> => {
        const query = { as: form, ...(all ? { all } : {}) }
        const answer: unknown = await taken(
          api.GET('/api/v1/tools/{tool}', { params: { path: { tool }, query }, signal }),
        )
        return typeof answer === 'string' ? answer : JSON.stringify(answer, null, 2)
      },
    }),
  /** What providers refuse, or are not told. */
  losses: (tool: Tool) =>
    queryOptions({
      queryKey: ['tools', 'losses', tool.name, tool.definitionDigest],
      queryFn: async ({ signal }) => {
        // Only what a model is told is judged: the least that is a definition around it.
        const definition = {
          name: tool.name,
          title: tool.title,
          description: tool.description,
          egress_class: 'write',
          input_schema: tool.inputSchema,
          runner: { kind: 'external' },
        }
        const { findings } = await taken(
          api.POST('/api/v1/lint', { body: { definition: definition as never }, signal }),
        )
        return findings.filter(({ code }) => code.startsWith('provider.'))
      },
      staleTime: Number.POSITIVE_INFINITY,
    }),
  history: (tool: string) =>
    infiniteQueryOptions({
      queryKey: ['calls', 'of-tool', tool],
      queryFn: ({ pageParam, signal }) =>
        taken(
          api.GET('/api/v1/calls', {
            params: { query: { tool, limit: HISTORY_ROWS, ...(pageParam ? { cursor: pageParam } : {}) } },
            signal,
          }),
        ),
      initialPageParam: '',
      getNextPageParam: (page) => page.next_cursor ?? undefined,
      refetchInterval: 30_000,
    }),
  call: (call: string) =>
    queryOptions({
      queryKey: ['calls', 'one', call],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/calls/{call}', { params: { path: { call } }, signal })),
      enabled: call !== '',
      // Events say when to look; this is for when none arrive.
      refetchInterval: ({ state }) => (state.data && !FINAL.has(state.data.status) ? OPEN_EVERY_MS : false),
    }),
  card: (call: string) =>
    queryOptions({
      queryKey: ['approvals', 'card', call],
      queryFn: ({ signal }) =>
        taken(api.GET('/api/v1/approvals/{approval}', { params: { path: { approval: call } }, signal })),
    }),
}

/** What this tenant wants of approvals. */
export const settingsQuery = () =>
  queryOptions({
    queryKey: ['settings'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/settings', { signal })),
    staleTime: 60_000,
    retry: false,
  })

export interface Asked {
  tool: string
  input: Record<string, never>
  requestId: string
  mode: Schemas['Mode']
}

export const act = {
  /** Answered at once; how it goes on is followed. */
  call: ({ tool, input, requestId, mode }: Asked) =>
    taken(api.POST('/api/v1/calls', { body: { tool, input, request_id: requestId, mode, wait: 0 } })),
  cancel: (call: string) => taken(api.POST('/api/v1/calls/{call}/cancel', { params: { path: { call } } })),
  confirm: (approval: string, digest: string) =>
    taken(
      api.POST('/api/v1/approvals/{approval}/decide', {
        params: { path: { approval }, query: { wait: 0 } },
        body: { decision: 'approve', input_digest: digest },
      }),
    ),
  enable: (tool: string, enabled: boolean) =>
    taken(api.PUT('/api/v1/tools/{tool}/enabled', { params: { path: { tool } }, body: { enabled } })),
  become: (tool: string, body: Schemas['StateRequest']) =>
    taken(api.PUT('/api/v1/tools/{tool}/state', { params: { path: { tool } }, body })),
}
