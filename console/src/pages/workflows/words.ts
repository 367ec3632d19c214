// Pure things about graphs and their runs: which node a finding is about, how many states become one.
import type { Schemas } from '../../api/client'
import type { GraphNode, NodeState } from './queries'

const GRAVEST: readonly Schemas['Severity'][] = ['error', 'warning', 'note']

/** The gravest of what is found in the node at a pointer. */
export function severityAt(
  findings: readonly Pick<Schemas['Finding'], 'pointer' | 'severity'>[],
  pointer: string,
): Schemas['Severity'] | undefined {
  const within = findings.filter((finding) => finding.pointer === pointer || finding.pointer.startsWith(`${pointer}/`))
  return GRAVEST.find((severity) => within.some((finding) => finding.severity === severity))
}

/** What the graph calls the node of a run, by its path there: ids and, below a map, indices, as in `each/0/look`. */
export function titleAt(nodes: readonly GraphNode[], path: string): string | undefined {
  const [id, , ...below] = path.split('/')
  const node = nodes.find((one) => one.id === id)
  if (below.length === 0) return node?.title ?? undefined
  return node?.kind === 'map' ? titleAt(node.config.body.nodes, below.join('/')) : undefined
}

// What needs somebody comes before what only goes on, and that before what is over.
const TELLING: readonly NodeState[] = ['failed', 'waiting', 'running', 'cancelled', 'completed', 'skipped']

export interface Standing {
  state: NodeState
  words: string
}

/** How a node of the graph stands in a run. Within a `map` there is one for each item. */
export function standingOf(counts: readonly Schemas['NodeStanding'][], path: string): Standing | undefined {
  const those = counts.filter(({ node }) => node === path)
  const told = TELLING.flatMap((state) => those.filter((one) => one.state === state))[0]
  if (!told) return undefined
  const all = those.reduce((sum, { count }) => sum + count, 0)
  return { state: told.state, words: all > 1 ? `${told.count} of ${all} ${WORDS[told.state]}` : WORDS[told.state] }
}

const WORDS: Readonly<Record<NodeState, string>> = {
  failed: 'failed',
  waiting: 'waits',
  running: 'running',
  completed: 'completed',
  skipped: 'skipped',
  cancelled: 'cancelled',
}
