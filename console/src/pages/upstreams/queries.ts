// Servers of others behind the gate: how they stand, what they offer, who is connected.
import { queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { withStepUp } from '../../app/StepUp'

export type Upstream = Schemas['UpstreamView']
export type Shown = Schemas['ShownUpstream']
export type Reading = Schemas['Reading']
export type Offer = Schemas['ShownOffer']
export type Suggestion = Schemas['Suggestion']

const LISTED_MAX = 500
const HEALTH_MS = 15_000

const named = (upstream: string) => ({ params: { path: { upstream } } })

export const upstreamsQuery = () =>
  queryOptions({
    queryKey: ['upstreams', 'list'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/upstreams', { params: { query: { limit: LISTED_MAX } }, signal })),
    refetchInterval: HEALTH_MS,
  })

export const upstreamQuery = (upstream: string) =>
  queryOptions({
    queryKey: ['upstreams', 'one', upstream],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/upstreams/{upstream}', { ...named(upstream), signal })),
    placeholderData: () => undefined,
  })

export const reviewQuery = (upstream: string) =>
  queryOptions({
    queryKey: ['upstreams', 'review', upstream],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/upstreams/{upstream}/review', { ...named(upstream), signal })),
  })

export const saveUpstream = (body: Schemas['Upstream']) =>
  withStepUp(() => taken(api.PUT('/api/v1/upstreams/{upstream}', { ...named(body.name), body })))

export const removeUpstream = (upstream: string) => taken(api.DELETE('/api/v1/upstreams/{upstream}', named(upstream)))

export const testUpstream = (upstream: string) => taken(api.POST('/api/v1/upstreams/{upstream}/test', named(upstream)))

export const refreshUpstream = (upstream: string) =>
  taken(api.POST('/api/v1/upstreams/{upstream}/refresh', named(upstream)))

/** `seen` stands for what was looked at: is it something else by now, nothing is accepted. */
export const acceptUpstream = ({ name, seen, tools }: { name: string; seen: string; tools?: string[] }) =>
  withStepUp(() =>
    taken(api.POST('/api/v1/upstreams/{upstream}/accept', { ...named(name), body: { seen, tools: tools ?? null } })),
  )

/** What was accepted goes on; what is refused waits for nobody until the server offers something else. */
export const refuseOffers = ({ name, seen, tools }: { name: string; seen: string; tools?: string[] }) =>
  withStepUp(() =>
    taken(
      api.POST('/api/v1/upstreams/{upstream}/refuse', {
        ...named(name),
        body: { seen, tools: tools ?? null, reason: null },
      }),
    ),
  )

export const classify = ({
  tool,
  egress_class,
  reason,
}: {
  tool: string
  egress_class: Schemas['EgressClass']
  reason: string
}) =>
  withStepUp(() =>
    taken(
      api.PUT('/api/v1/tools/{tool}/classification', {
        params: { path: { tool } },
        body: { egress_class, reason },
      }),
    ),
  )

export const beginConnection = ({ name, redirect }: { name: string; redirect: string }) =>
  withStepUp(() =>
    taken(api.POST('/api/v1/upstreams/{upstream}/connect', { ...named(name), body: { redirect, scope: null } })),
  )

export const endConnection = ({ name, answer }: { name: string; answer: string }) =>
  taken(api.POST('/api/v1/upstreams/{upstream}/connected', { ...named(name), body: { answer, scope: null } }))

export const disconnect = ({ name, scope }: { name: string; scope: Schemas['SecretScope'] }) =>
  taken(
    api.DELETE('/api/v1/upstreams/{upstream}/connection', { params: { path: { upstream: name }, query: { scope } } }),
  )

/** What changes a server changes its tools too. */
export function useUpstreamChange<Input, Output>(send: (input: Input) => Promise<Output>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: send,
    onSettled: () => {
      for (const kind of ['upstreams', 'tools']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}
