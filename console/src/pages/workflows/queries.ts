// Workflows: their graphs, what is found about them, and their runs.
import { infiniteQueryOptions, queryOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import type { JsonObject } from '../../form/schema'

export type WorkflowRow = Schemas['WorkflowView']
export type Shown = Schemas['ShownWorkflow']
export type Workflow = Schemas['Workflow']
export type GraphNode = Schemas['Node']
export type GraphEdge = Schemas['Edge']
export type WorkflowRun = Schemas['WorkflowRunView']
export type NodeRun = Schemas['WorkflowNode']
export type NodeState = Schemas['NodeState']

const LISTED_MAX = 500
const NODES_PAGE = 100
const first = {} as { cursor?: string }

const named = (workflow: string) => ({ params: { path: { workflow } } })

export const workflowsQuery = () =>
  queryOptions({
    queryKey: ['workflows', 'list'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/workflows', { params: { query: { limit: LISTED_MAX } }, signal })),
  })

const LATEST_RUNS = 20

export const latestRunsQuery = (workflow: string) =>
  queryOptions({
    queryKey: ['runs', 'of-workflow', workflow],
    queryFn: ({ signal }) =>
      taken(api.GET('/api/v1/runs', { params: { query: { workflow, limit: LATEST_RUNS } }, signal })),
    refetchInterval: 10_000,
  })

export const workflowQuery = (workflow: string, revision?: number) =>
  queryOptions({
    queryKey: ['workflows', 'one', workflow, revision],
    queryFn: ({ signal }) =>
      taken(
        api.GET('/api/v1/workflows/{workflow}', {
          params: { path: { workflow }, query: revision === undefined ? {} : { revision } },
          signal,
        }),
      ),
  })

/** By the tools and agents that whoever looks has now: it may be found today what was fine when it was saved. */
export const findingsQuery = (workflow: string, revision: number) =>
  queryOptions({
    queryKey: ['workflows', 'findings', workflow, revision],
    queryFn: ({ signal }) =>
      taken(
        api.POST('/api/v1/workflows/{workflow}/check', {
          ...named(workflow),
          body: { revision, workflow: null },
          signal,
        }),
      ),
  })

/** The nodes of a run in the order in which they began: of a map's items there may be thousands. */
export const nodesQuery = (run: string) =>
  infiniteQueryOptions({
    queryKey: ['runs', 'workflow-nodes', run],
    queryFn: ({ pageParam, signal }) =>
      taken(
        api.GET('/api/v1/runs/{run}/workflow/nodes', {
          params: { path: { run }, query: { limit: NODES_PAGE, ...pageParam } },
          signal,
        }),
      ),
    initialPageParam: first,
    getNextPageParam: ({ next_cursor }) => (next_cursor ? { cursor: next_cursor } : undefined),
  })

export const runWorkflow = ({ name, revision, input }: { name: string; revision: number; input: JsonObject }) =>
  taken(
    api.POST('/api/v1/workflows/{workflow}/runs', {
      ...named(name),
      // The description knows only that it is an object.
      body: { revision, input: input as Record<string, never>, limits: {}, request_id: null },
    }),
  )

export const removeWorkflow = (name: string) => taken(api.DELETE('/api/v1/workflows/{workflow}', named(name)))

export const materialize = ({ call, workflow }: { call: string; workflow: string }) =>
  taken(
    api.POST('/api/v1/calls/{call}/materialize', {
      params: { path: { call } },
      body: { workflow: workflow === '' ? null : workflow },
    }),
  )

export function useWorkflowChange<Input, Output>(send: (input: Input) => Promise<Output>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: send,
    onSuccess: () => {
      for (const kind of ['workflows', 'runs', 'run-pages']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}
