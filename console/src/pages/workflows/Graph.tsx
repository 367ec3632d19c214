// A graph as a picture. It says nothing that the list of nodes beside it does not say in words.
import { Bot, GitFork, ListTree, LogIn, LogOut, type LucideIcon, MessageCircleQuestion, Wrench } from 'lucide-react'
import { useMemo } from 'react'
import { revealedText } from '../../lib/hidden'
import css from './Graph.module.css'
import { type Box, type Picture, pictureOf } from './layout'
import type { GraphNode, NodeState, Workflow } from './queries'

export const NODE_ICONS: Readonly<Record<GraphNode['kind'], LucideIcon>> = {
  input: LogIn,
  agent: Bot,
  tool: Wrench,
  condition: GitFork,
  map: ListTree,
  human: MessageCircleQuestion,
  output: LogOut,
}

/** Smaller than this nobody reads it: it scrolls instead. */
const SCALE_MIN = 0.9
const MARGIN = 12
const HEAD = 46
const INNER = 12

export function Graph({
  workflow,
  stateOf,
}: {
  workflow: Workflow
  /** Of a run: how the node at a path stands, and in words. */
  stateOf?: (path: string) => { state: NodeState; words: string } | undefined
}) {
  const picture = useMemo(() => pictureOf(workflow.nodes, workflow.edges ?? []), [workflow])
  const [width, height] = [picture.width + 2 * MARGIN, picture.height + 2 * MARGIN]
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
    <div className={css.scroll} role="region" aria-label="Graph" tabIndex={0}>
      <svg
        role="img"
        aria-label={`Graph of ${workflow.nodes.length} nodes; the list of nodes says the same in words`}
        style={{ width, minWidth: width * SCALE_MIN }}
        viewBox={`0 0 ${width} ${height}`}
        className={css.graph}
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0,0 L8,4 L0,8 z" className={css.tip} />
          </marker>
        </defs>
        <g transform={`translate(${MARGIN} ${MARGIN})`}>
          <Drawn picture={picture} stateOf={stateOf} />
        </g>
      </svg>
    </div>
  )
}

type StateOf = Parameters<typeof Graph>[0]['stateOf']

function Drawn({ picture, stateOf }: { picture: Picture; stateOf: StateOf }) {
  return (
    <>
      {picture.lines.map(({ id, d }) => (
        <path key={id} d={d} className={css.line} markerEnd="url(#arrow)" />
      ))}
      {picture.boxes.map((box) => (
        <Node key={box.path} box={box} stateOf={stateOf} />
      ))}
      {picture.lines.map(
        ({ id, label, labelX, labelY }) =>
          label !== '' && (
            <text key={id} x={labelX} y={labelY} className={css.label}>
              {revealedText(label)}
            </text>
          ),
      )}
    </>
  )
}

function Node({ box, stateOf }: { box: Box; stateOf: StateOf }) {
  const Icon = NODE_ICONS[box.kind]
  const stands = stateOf?.(box.path)
  const isStill = stateOf !== undefined && stands === undefined
  return (
    <g transform={`translate(${box.x} ${box.y})`} data-state={stands?.state ?? (isStill ? 'none' : undefined)}>
      <rect width={box.width} height={box.height} rx="4" className={box.inner ? `${css.box} ${css.outer}` : css.box} />
      <rect width="3" height={box.height} className={css.edge} />
      <Icon x={12} y={12} width={15} height={15} className={css.icon} aria-hidden="true" />
      <text x={34} y={23} className={css.title}>
        {revealedText(box.title)}
      </text>
      <text x={34} y={40} className={css.note}>
        {revealedText(stands && !box.inner ? stands.words : box.note)}
      </text>
      {box.inner && (
        <g transform={`translate(${INNER} ${HEAD})`}>
          <Drawn picture={box.inner} stateOf={stateOf} />
        </g>
      )}
    </g>
  )
}
