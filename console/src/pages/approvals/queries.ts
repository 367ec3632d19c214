// What the approvals pages ask, and the one way they decide.
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { asApiError, sentence } from '../../api/errors'
import { withStepUp } from '../../app/StepUp'
import { notify } from '../../ui/Notices'
import type { Card } from './card'

export interface InboxFilter {
  state: string
  tool?: string | undefined
  agent?: string | undefined
}

const PAGE_ITEMS = 50
// Whoever may not follow all events still sees what happens, a little later.
const ASK_AGAIN_MS = 10_000
const RUNNING_MS = 1_500
const HELD_MS = 3_000

// Another card must never stand in for the one that was asked for, not even for a moment.
const nothing = () => undefined

const STATES: readonly string[] = [
  'open',
  'approved',
  'rejected',
  'expired',
  'cancelled',
] satisfies Schemas['ApprovalState'][]

function stateOf(state: string): { state?: Schemas['ApprovalState'] } {
  return STATES.includes(state) ? { state: state as Schemas['ApprovalState'] } : {}
}

export const inbox = ({ state, tool, agent }: InboxFilter) =>
  infiniteQueryOptions({
    queryKey: ['approvals', 'list', { state, tool, agent }],
    queryFn: ({ signal, pageParam }) =>
      taken(
        api.GET('/api/v1/approvals', {
          params: {
            query: {
              ...stateOf(state),
              ...(tool ? { tool } : {}),
              ...(agent ? { agent } : {}),
              ...(pageParam ? { cursor: pageParam } : {}),
              limit: PAGE_ITEMS,
            },
          },
          signal,
        }),
      ),
    initialPageParam: '',
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    placeholderData: nothing,
    refetchInterval: ASK_AGAIN_MS,
  })

export const cardQuery = (id: string) =>
  queryOptions({
    queryKey: ['approvals', 'card', id],
    queryFn: async ({ signal }): Promise<Card> =>
      taken(api.GET('/api/v1/approvals/{approval}', { params: { path: { approval: id } }, signal })),
    placeholderData: nothing,
    refetchInterval: ({ state: { data } }) => {
      // No event tells that a kill switch let go.
      if (data?.frozen_at) return HELD_MS
      if (!data || data.state === 'open') return ASK_AGAIN_MS
      return data.call_status === 'approved' || data.call_status === 'running' ? RUNNING_MS : false
    },
  })

export const settingsQuery = () =>
  queryOptions({
    queryKey: ['settings'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/settings', { signal })),
    staleTime: 60_000,
  })

/** The tool as it was called, for its form. */
export const toolQuery = (tool: string) =>
  queryOptions({
    queryKey: ['tools', 'definition', tool],
    queryFn: ({ signal }) =>
      taken(api.GET('/api/v1/tools/{tool}', { params: { path: { tool }, query: { all: false } }, signal })),
    placeholderData: nothing,
  })

export interface Decision {
  decision: Schemas['Vote']
  reason?: string | undefined
  input?: unknown
  standing?: { constraints: Record<string, unknown>[]; uses: number; expires_s: number; run_id?: string } | undefined
}

/** Decides on the card as it was looked at: the digest says which input that was, the round how much was asked. */
export function useDecide(card: Card) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: ({ decision, reason, input, standing }: Decision) => {
      const body = {
        decision,
        input_digest: card.input_digest,
        round: card.round,
        ...(reason ? { reason } : {}),
        ...(input === undefined ? {} : { input }),
        ...(standing ? { standing } : {}),
        // What is in `input` and `constraints` is for the server to judge; the description calls both "object".
      } as Schemas['Choice']
      return withStepUp(() =>
        taken(api.POST('/api/v1/approvals/{approval}/decide', { params: { path: { approval: card.id } }, body })),
      )
    },
    onSuccess: (decided) => {
      client.setQueryData(cardQuery(card.id).queryKey, (before) => ({ ...decided, earlier: before?.earlier ?? null }))
      const news = newsOf(decided)
      if (news) notify(news)
    },
    onSettled: (_, error) => {
      // Somebody else was first, or it changed meanwhile: what is on the screen is not true any more.
      if (error && asApiError(error).status !== 409) return
      for (const kind of ['approvals', 'calls', 'home', 'grants']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}

/** The bar itself says who decided what; only what it does not say is news, and nothing lies over the buttons. */
function newsOf({ wanted, standing, tool }: Schemas['Decided']): string | undefined {
  if (wanted) return sentence(wanted)
  return standing ? `Calls like this of ${tool} are allowed for a while` : undefined
}

export function useDecideAll() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (body: Schemas['BulkDecision']) =>
      withStepUp(() => taken(api.POST('/api/v1/approvals/decide', { body }))),
    onSettled: () => {
      for (const kind of ['approvals', 'calls', 'home']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}
