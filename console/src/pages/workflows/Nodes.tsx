// The nodes of a graph in words: what each does, what leads to it, and how it is set up.
import type { Schemas } from '../../api/client'
import { revealed } from '../../lib/hidden'
import { SeverityBadge } from '../../ui/domain'
import { Json } from '../../ui/Json'
import { Section } from '../../ui/Section'
import { NODE_ICONS } from './Graph'
import { noteOf } from './layout'
import type { GraphEdge, GraphNode, Workflow } from './queries'
import { severityAt } from './words'
import css from './workflows.module.css'

export function Nodes({ workflow, findings }: { workflow: Workflow; findings: readonly Schemas['Finding'][] }) {
  return (
    <div className={css.part}>
      <Section title="Nodes">
        <List nodes={workflow.nodes} edges={workflow.edges ?? []} pointer="" findings={findings} />
      </Section>
    </div>
  )
}

function List({
  nodes,
  edges,
  pointer,
  findings,
}: {
  nodes: readonly GraphNode[]
  edges: readonly GraphEdge[]
  pointer: string
  findings: readonly Schemas['Finding'][]
}) {
  return (
    <ul className={css.nodes}>
      {nodes.map((node, index) => (
        <li key={node.id}>
          <Node node={node} edges={edges} pointer={`${pointer}/nodes/${index}`} findings={findings} />
        </li>
      ))}
    </ul>
  )
}

function Node({
  node,
  edges,
  pointer,
  findings,
}: {
  node: GraphNode
  edges: readonly GraphEdge[]
  pointer: string
  findings: readonly Schemas['Finding'][]
}) {
  const Icon = NODE_ICONS[node.kind]
  const severity = severityAt(findings, pointer)
  const coming = edges.filter(({ to }) => to.node === node.id)
  const config = 'config' in node ? configOf(node) : undefined
  return (
    <details className={css.node}>
      <summary>
        <Icon aria-hidden="true" />
        <b>{revealed(node.title ?? node.id)}</b>
        <code className={css.quiet}>{revealed(noteOf(node))}</code>
        {severity && <SeverityBadge severity={severity} />}
      </summary>
      <div className={css.inside}>
        {coming.length > 0 && (
          <ul className={css.coming} aria-label="What leads to it">
            {coming.map(({ from, to }) => (
              <li key={`${from.node} ${from.handle} ${from.path} ${to.handle}`}>
                <code>{revealed(to.handle)}</code> from{' '}
                <code>{revealed(`${from.node}.${from.handle}${from.path ?? ''}`)}</code>
              </li>
            ))}
          </ul>
        )}
        {config && Object.keys(config).length > 0 && <Json value={config} openDepth={3} />}
        {node.on_error === 'data' && <p className={css.quiet}>What fails is an output, `error`, and ends nothing.</p>}
        {node.kind === 'map' && (
          <List
            nodes={node.config.body.nodes}
            edges={node.config.body.edges ?? []}
            pointer={`${pointer}/config/body`}
            findings={findings}
          />
        )}
      </div>
    </details>
  )
}

/** What is done for each item is a list of its own. */
function configOf(node: Extract<GraphNode, { config: unknown }>): object {
  if (node.kind !== 'map') return node.config
  const { body: _, ...rest } = node.config
  return rest
}
