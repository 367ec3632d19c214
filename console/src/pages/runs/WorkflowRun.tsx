// A run of a workflow: its graph with how each node stands, what arrived there and what it gave. Where it waits for a
// person's answer, that is given here.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { sentence } from '../../api/errors'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { NodeBadge } from '../../ui/domain'
import { Json } from '../../ui/Json'
import { Prose } from '../../ui/Prose'
import { Section } from '../../ui/Section'
import { Graph, NODE_ICONS } from '../workflows/Graph'
import { type NodeRun, nodesQuery, type WorkflowRun as Told, workflowQuery } from '../workflows/queries'
import { standingOf, titleAt } from '../workflows/words'
import css from '../workflows/workflows.module.css'
import { AnswerDialog } from './Questions'
import type { Question, RunView } from './queries'

export function WorkflowRun({ run, view, questions }: { run: Told; view: RunView; questions: readonly Question[] }) {
  const graph = useQuery(workflowQuery(run.workflow, run.revision)).data?.workflow
  const pages = useInfiniteQuery(nodesQuery(run.run_id))
  const nodes = pages.data?.pages.flatMap(({ items }) => items) ?? run.nodes.items
  const all = run.standing.reduce((sum, { count }) => sum + count, 0)
  const [answering, setAnswering] = useState<Question>()
  return (
    <section className={css.run} aria-label="Workflow">
      <div className={css.head}>
        <h2>
          <Link {...to.workflow(run.workflow, run.revision)}>{revealed(run.workflow)}</Link>
        </h2>
        <span className={css.quiet}>revision {run.revision}</span>
      </div>
      {graph && <Graph workflow={graph} stateOf={(path) => standingOf(run.standing, path)} />}
      <div className={css.part}>
        {run.output && (
          <Section title="Output">
            <Json value={run.output} openDepth={4} />
          </Section>
        )}
        <Section title="Nodes">
          <ul className={css.nodes}>
            {nodes.map((node) => {
              const question = questions.find(({ id, state }) => id === node.question_id && state === 'open')
              return (
                <li key={node.path}>
                  <Node
                    node={node}
                    title={graph && titleAt(graph.nodes, node.path)}
                    view={view}
                    answer={question === undefined ? undefined : () => setAnswering(question)}
                  />
                </li>
              )
            })}
          </ul>
          {pages.hasNextPage && (
            <p className={css.links}>
              <span className={css.quiet}>
                {nodes.length.toLocaleString('en')} of {all.toLocaleString('en')}
              </span>
              <Button isDisabled={pages.isFetchingNextPage} onPress={() => void pages.fetchNextPage()}>
                Show more
              </Button>
            </p>
          )}
        </Section>
      </div>
      {answering && <AnswerDialog question={answering} onClose={() => setAnswering(undefined)} />}
    </section>
  )
}

function Node({
  node,
  title,
  view,
  answer,
}: {
  node: NodeRun
  title: string | undefined
  view: RunView
  answer: (() => void) | undefined
}) {
  const Icon = NODE_ICONS[node.kind as keyof typeof NODE_ICONS]
  const took = node.ended_at ? Date.parse(node.ended_at) - Date.parse(node.started_at) : undefined
  return (
    <details className={css.node} open={node.state === 'waiting' || node.state === 'failed'}>
      <summary>
        {Icon && <Icon aria-hidden="true" />}
        {title && <b>{revealed(title)}</b>}
        <code className={title && css.quiet}>{revealed(node.path)}</code>
        <NodeBadge state={node.state} />
        {took !== undefined && node.state !== 'skipped' && (
          <span className={`${css.quiet} ${css.end}`}>{duration(Math.max(0, took))}</span>
        )}
      </summary>
      <div className={css.inside}>
        {answer && (
          <p>
            <Button kind="primary" onPress={answer}>
              Answer
            </Button>
          </p>
        )}
        {node.error && (
          <p className={css.error}>
            <Prose text={sentence(node.error.message)} /> <code>{node.error.code}</code>
          </p>
        )}
        <Links node={node} view={view} />
        <div className={css.handles}>
          <Handles title="Inputs" values={node.inputs} />
          <Handles title="Outputs" values={node.outputs} />
        </div>
      </div>
    </details>
  )
}

function Handles({ title, values }: { title: string; values: object }) {
  return (
    <div>
      <h3>{title}</h3>
      {Object.keys(values).length === 0 ? <p className={css.quiet}>none</p> : <Json value={values} openDepth={2} />}
    </div>
  )
}

/** A node's call and the run below it have pages of their own. */
function Links({ node, view }: { node: NodeRun; view: RunView }) {
  const { envelope } = node.outputs as { envelope?: { call_id?: string } }
  const known = node.call_id ?? envelope?.call_id
  const call = view.calls.find(({ id, call_id }) => id === known || call_id === known)
  if (!call && !node.child_run_id) return null
  return (
    <p className={css.links}>
      {call && <Link {...to.call(call.id)}>Its call of {revealed(call.tool_key)}</Link>}
      {node.child_run_id && <Link {...to.run(node.child_run_id)}>Its run</Link>}
    </p>
  )
}
