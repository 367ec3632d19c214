// Agents, the tools they have, and the profiles that bind them.
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { withStepUp } from '../../app/StepUp'
import { notify } from '../../ui/Notices'

export type Agent = Schemas['Agent']
export type AgentTool = Schemas['AgentTool']
export type Assignment = Schemas['AssignmentView']
export type Profile = Schemas['StoredProfile']

const PAGE = 100
const KEYS_MAX = 500
const first = {} as { cursor?: string }
const nextPage = ({ next_cursor }: { next_cursor?: string | null }) =>
  next_cursor ? { cursor: next_cursor } : undefined

const named = (agent: string) => ({ params: { path: { agent } } })

export const agentsQuery = () =>
  infiniteQueryOptions({
    queryKey: ['agents', 'list'],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/agents', { params: { query: { limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: first,
    getNextPageParam: nextPage,
  })

export const agentQuery = (agent: string) =>
  queryOptions({
    queryKey: ['agents', agent],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/agents/{agent}', { ...named(agent), signal })),
  })

export const agentToolsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['agents', agent, 'tools'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/agents/{agent}/tools', { ...named(agent), signal })),
  })

export const assignmentsQuery = (agent: string) =>
  infiniteQueryOptions({
    queryKey: ['agents', agent, 'assignments'],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/assignments', { params: { query: { agent, limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: first,
    getNextPageParam: nextPage,
  })

export const profilesQuery = () =>
  infiniteQueryOptions({
    queryKey: ['agents', 'profiles'],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/profiles', { params: { query: { limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: first,
    getNextPageParam: nextPage,
  })

export const agentCallsQuery = (agent: string) =>
  infiniteQueryOptions({
    queryKey: ['calls', 'of-agent', agent],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/calls', { params: { query: { agent, limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: first,
    getNextPageParam: nextPage,
  })

export const agentApprovalsQuery = (agent: string) =>
  infiniteQueryOptions({
    queryKey: ['approvals', 'of-agent', agent],
    queryFn: ({ pageParam, signal }) =>
      taken(api.GET('/api/v1/approvals', { params: { query: { agent, limit: PAGE, ...pageParam } }, signal })),
    initialPageParam: first,
    getNextPageParam: nextPage,
  })

export const openApprovalsQuery = (agent: string) =>
  queryOptions({
    queryKey: ['approvals', 'count', agent],
    queryFn: ({ signal }) =>
      taken(api.GET('/api/v1/approvals/count', { params: { query: { agent, state: 'open' } }, signal })),
  })

/** Calls of the last 30 days that have ended, as the usage counts them. */
export const agentUsageQuery = (agent: string) =>
  queryOptions({
    queryKey: ['calls', 'usage', agent],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/usage', { params: { query: { by: 'agent', agent } }, signal })),
  })

export const createAgent = (body: Schemas['AgentSpec']) => taken(api.POST('/api/v1/agents', { body }))
export const replaceAgent = (body: Schemas['AgentSpec']) =>
  taken(api.PUT('/api/v1/agents/{agent}', { ...named(body.name), body }))
export const setAgentState = ({ agent, state }: { agent: string; state: Schemas['AgentState'] }) =>
  taken(api.PUT('/api/v1/agents/{agent}/state', { ...named(agent), body: { state } }))

export const assign = ({ agent, tool, profile }: { agent: string; tool: string; profile?: string }) =>
  taken(
    api.PUT('/api/v1/agents/{agent}/tools/{tool}', {
      params: { path: { agent, tool } },
      body: { profile: profile ?? null },
    }),
  )
export const unassign = ({ agent, tool }: { agent: string; tool: string }) =>
  taken(api.DELETE('/api/v1/agents/{agent}/tools/{tool}', { params: { path: { agent, tool } } }))

export const saveProfile = (body: Schemas['Profile']) =>
  taken(api.PUT('/api/v1/profiles/{profile}', { params: { path: { profile: body.name } }, body }))
export const deleteProfile = (profile: string) =>
  taken(api.DELETE('/api/v1/profiles/{profile}', { params: { path: { profile } } }))

/** Keys that the person may see: their own, or all. */
export const keysQuery = () =>
  queryOptions({
    queryKey: ['keys'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/keys', { params: { query: { limit: KEYS_MAX } }, signal })),
    staleTime: 0,
    gcTime: 0,
  })

export const makeKey = (body: Schemas['KeyRequest']) => withStepUp(() => taken(api.POST('/api/v1/keys', { body })))

/** A change to agents: sends it, says so, and lets everything about agents be read again. */
export function useAgentChange<Input, Output>(send: (input: Input) => Promise<Output>, said: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: send,
    onSuccess: () => {
      notify(said)
      void client.invalidateQueries({ queryKey: ['agents'] })
      void client.invalidateQueries({ queryKey: ['tools'] })
    },
  })
}
