// Pure things about graphs and their runs: which node a finding is about, how many states become one, whose run it is.
import type { Schemas } from '../../api/client'
import type { NodeRun, NodeState } from './queries'

const GRAVEST: readonly Schemas['Severity'][] = ['error', 'warning', 'note']

/** The gravest of what is found in the node at a pointer. */
export function severityAt(
  findings: readonly Pick<Schemas['Finding'], 'pointer' | 'severity'>[],
  pointer: string,
): Schemas['Severity'] | undefined {
  const within = findings.filter((finding) => finding.pointer === pointer || finding.pointer.startsWith(`${pointer}/`))
  return GRAVEST.find((severity) => within.some((finding) => finding.severity === severity))
}

// What needs somebody comes before what only goes on, and that before what is over.
const TELLING: readonly NodeState[] = ['failed', 'waiting', 'running', 'completed', 'skipped']

export interface Standing {
  state: NodeState
  words: string
}

/** How a node of the graph stands in a run. Within a `map` there is one for each item: `each/0/say` is of `each/say`. */
export function standingOf(nodes: readonly Pick<NodeRun, 'path' | 'state'>[], path: string): Standing | undefined {
  const those = nodes.filter((node) => graphPath(node.path) === path)
  const state = TELLING.find((one) => those.some((node) => node.state === one))
  if (!state) return undefined
  const count = those.filter((node) => node.state === state).length
  return { state, words: those.length > 1 ? `${count} of ${those.length} ${WORDS[state]}` : WORDS[state] }
}

const WORDS: Readonly<Record<NodeState, string>> = {
  failed: 'failed',
  waiting: 'waits',
  running: 'running',
  completed: 'completed',
  skipped: 'skipped',
}

/** Ids of nodes are no numbers; the numbers in a path are those of items. */
export function graphPath(path: string): string {
  return path
    .split('/')
    .filter((part, index) => index === 0 || !/^\d+$/.test(part))
    .join('/')
}

/** Which workflow a run is of, by the title that the server gives such runs. */
export function workflowOf(
  run: Pick<Schemas['Run'], 'title' | 'agent_id'>,
): { name: string; revision: number } | undefined {
  if (run.agent_id) return undefined
  const [, name, revision] = /^Workflow ([a-z0-9][a-z0-9_-]*) \(revision (\d+)\)$/.exec(run.title ?? '') ?? []
  return name === undefined ? undefined : { name, revision: Number(revision) }
}
