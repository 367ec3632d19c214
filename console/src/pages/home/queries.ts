// What the first page asks. Every key begins with `home`: each event makes all of it stale.
import { queryOptions } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { listCalls } from '../calls/queries'
import { byHour, type Hour, type Part, partsOf, since } from './activity'
import { sum } from './amount'

const AGAIN_MS = 30_000
const LISTED = 5
const PAGE_ITEMS = 200
/** Enough for a picture; more would be minutes of asking. */
const PAGES_MAX = 5

const calls = (status: Schemas['Status'], signal: AbortSignal) =>
  taken(api.GET('/api/v1/calls', { params: { query: { status, limit: LISTED } }, signal }))

export const home = {
  approvals: () =>
    queryOptions({
      queryKey: ['home', 'approvals'],
      queryFn: ({ signal }) =>
        taken(api.GET('/api/v1/approvals', { params: { query: { state: 'open', limit: LISTED } }, signal })),
      refetchInterval: AGAIN_MS,
    }),
  questions: () =>
    queryOptions({
      queryKey: ['home', 'questions'],
      queryFn: ({ signal }) =>
        taken(api.GET('/api/v1/inputs', { params: { query: { state: 'open', limit: LISTED } }, signal })),
      refetchInterval: AGAIN_MS,
    }),
  unknown: () =>
    queryOptions({
      queryKey: ['home', 'unknown'],
      queryFn: ({ signal }) => calls('outcome_unknown', signal),
      refetchInterval: AGAIN_MS,
    }),
  /** What failed of what was let through: a call that was denied is none. */
  failures: () =>
    queryOptions({
      queryKey: ['home', 'failures'],
      queryFn: async ({ signal }) => {
        const { items } = await listCalls({ status: 'failed' }, PAGE_ITEMS, '', signal)
        return { items: items.slice(0, LISTED) }
      },
    }),
  activity: () =>
    queryOptions({
      queryKey: ['home', 'activity'],
      queryFn: async ({ signal }): Promise<{ hours: Hour[]; parts: Part[]; from: string; isAll: boolean }> => {
        const now = Date.now()
        const from = new Date(since(now)).toISOString()
        const found: Schemas['CallSummary'][] = []
        let cursor: string | null | undefined
        for (let page = 0; page < PAGES_MAX; page += 1) {
          const query = { since: from, limit: PAGE_ITEMS, ...(cursor ? { cursor } : {}) }
          const { items, next_cursor } = await taken(api.GET('/api/v1/calls', { params: { query }, signal }))
          found.push(...items)
          cursor = next_cursor
          if (!cursor) break
        }
        return { hours: byHour(found, now), parts: partsOf(found), from, isAll: !cursor }
      },
    }),
  usage: () =>
    queryOptions({
      queryKey: ['home', 'usage'],
      queryFn: async ({ signal }): Promise<Usage> => {
        const days = (by: Schemas['GroupedBy']) =>
          taken(api.GET('/api/v1/usage', { params: { query: { by, from: dayBefore(29), limit: PAGE_ITEMS } }, signal }))
        const [byDay, byTool, byAgent] = await Promise.all([days('day'), days('tool'), days('agent')])
        const spans = [1, 7, 30].map((span) => {
          const rows = byDay.items.filter(({ key }) => (key ?? '') >= dayBefore(span - 1))
          const count = (of: (row: Schemas['UsageRow']) => number) => rows.reduce((all, row) => all + of(row), 0)
          return {
            days: span,
            calls: count((row) => row.calls),
            questions: count((row) => row.questions),
            unpriced: count((row) => row.unpriced),
            cost: costOf(rows),
          }
        })
        return { spans, currency: byDay.items[0]?.currency ?? '', tools: top(byTool.items), agents: top(byAgent.items) }
      },
    }),
  stopped: () =>
    queryOptions({
      queryKey: ['home', 'stopped'],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/kill-switches', { params: { query: {} }, signal })),
      refetchInterval: AGAIN_MS,
    }),
  agents: () =>
    queryOptions({
      queryKey: ['home', 'agents'],
      queryFn: ({ signal }) => taken(api.GET('/api/v1/agents', { params: { query: { limit: PAGE_ITEMS } }, signal })),
      refetchInterval: AGAIN_MS,
    }),
  /** What has been done here already, for the first steps. */
  begun: () =>
    queryOptions({
      queryKey: ['home', 'begun'],
      queryFn: async ({ signal }) => {
        const [called, asked] = await Promise.all([
          taken(api.GET('/api/v1/calls', { params: { query: { limit: 1 } }, signal })),
          taken(api.GET('/api/v1/approvals', { params: { query: { limit: LISTED } }, signal })),
        ])
        return { called: called.items.length > 0, asked: asked.items.some(({ agent_id }) => Boolean(agent_id)) }
      },
    }),
  /** What the server says about itself with every answer. */
  warning: () =>
    queryOptions({
      queryKey: ['home', 'warning'],
      queryFn: async ({ signal }) => {
        const { response } = await api.GET('/api/v1/session', { signal })
        return response.headers.get('toolgate-warning')
      },
      staleTime: Number.POSITIVE_INFINITY,
    }),
}

export interface Top {
  name: string | null | undefined
  /** Why it has no name. */
  unnamed: Schemas['Unnamed'] | null | undefined
  calls: number
  failed: number
  questions: number
  /** Questions to models without a price: what they cost is not in `cost`. */
  unpriced: number
  cost: string
}

export interface Usage {
  spans: readonly { days: number; calls: number; questions: number; unpriced: number; cost: string }[]
  currency: string
  tools: readonly Top[]
  agents: readonly Top[]
}

const DAY_MS = 86_400_000
const TOP = 5

function dayBefore(days: number): string {
  return new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10)
}

const costOf = (rows: readonly Schemas['UsageRow'][]) => sum(rows.map(({ cost }) => cost))

function top(rows: readonly Schemas['UsageRow'][]): Top[] {
  return [...rows]
    .sort((one, other) => Number(other.cost) - Number(one.cost) || other.calls - one.calls)
    .slice(0, TOP)
    .map(({ key, unnamed, calls: count, failed, questions, unpriced, cost }) => ({
      name: key,
      unnamed,
      calls: count,
      failed,
      questions,
      unpriced,
      cost,
    }))
}
