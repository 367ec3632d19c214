// Where the nodes of a graph stand and how its lines run, from left to right in layers. Pure: the same graph is the same
// picture. What is done for each item of a list stands within its node.
import type { GraphEdge, GraphNode } from './queries'

export interface Box {
  id: string
  /** From the outermost graph: `each/say`. */
  path: string
  kind: GraphNode['kind']
  title: string
  /** What it calls or asks. */
  note: string
  x: number
  y: number
  width: number
  height: number
  inner: Picture | undefined
}

export interface Line {
  id: string
  d: string
  label: string
  labelX: number
  labelY: number
}

export interface Picture {
  width: number
  height: number
  boxes: readonly Box[]
  lines: readonly Line[]
}

export const LETTERS_MAX = 26
const LETTER = 7.2
const BOX_MIN = 104
const BOX_HEIGHT = 52
const ICON = 44
const PORT = 20
const GAP_X = 32
const GAP_Y = 20
const EDGE_HEIGHT = 10
const INNER = 12
const INNER_HEAD = 46
const SWEEPS = 4
const LABEL_MAX = 16

interface Point {
  x: number
  y: number
}

/** A node, or a place where a long line passes a layer. */
interface Spot {
  id: string
  box: Box | undefined
  layer: number
  width: number
  height: number
  x: number
  y: number
}

interface Way {
  edge: GraphEdge
  spots: Spot[]
}

export function pictureOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[], above = ''): Picture {
  const layers = layersOf(nodes, edges)
  const ports = portsOf(edges)
  const spots = new Map(
    nodes.map((node): [string, Spot] => {
      const box = boxOf(node, ports.get(node.id)?.length ?? 0, above)
      return [node.id, { id: node.id, box, layer: layers.get(node.id) ?? 0, ...sizeOf(box), x: 0, y: 0 }]
    }),
  )
  const ways = edges.flatMap((edge): Way[] => {
    const [from, to] = [spots.get(edge.from.node), spots.get(edge.to.node)]
    return from && to ? [{ edge, spots: [from, ...passing(edge, from, to), to] }] : []
  })
  const columns = columnsOf([...spots.values()], ways)
  const { width, height } = place(columns, ports)
  const boxes = [...spots.values()].flatMap(({ box, x, y }) => (box ? [{ ...box, x, y }] : []))
  const ends = columns.map((column) => Math.max(0, ...column.map((spot) => spot.x + spot.width)))
  return { width, height, boxes, lines: linesOf(ways, ports, ends) }
}

const sizeOf = ({ width, height }: Box) => ({ width, height })

/** Each as far right as the longest way to it is long. A graph that turns in circles is cut off after as many steps. */
export function layersOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): ReadonlyMap<string, number> {
  const layers = new Map(nodes.map(({ id }) => [id, 0]))
  for (let step = 0; step < nodes.length; step += 1) {
    let isSettled = true
    for (const { from, to } of edges) {
      const [begins, ends] = [layers.get(from.node), layers.get(to.node)]
      if (begins === undefined || ends === undefined || from.node === to.node || ends > begins) continue
      if (begins + 1 >= nodes.length) continue
      layers.set(to.node, begins + 1)
      isSettled = false
    }
    if (isSettled) break
  }
  return layers
}

/** The outputs of each node from which lines begin, in the order in which they are written. */
function portsOf(edges: readonly GraphEdge[]): ReadonlyMap<string, readonly string[]> {
  const ports = new Map<string, string[]>()
  for (const { from } of edges) {
    const known = ports.get(from.node) ?? []
    if (!known.includes(labelOf(from))) known.push(labelOf(from))
    ports.set(from.node, known)
  }
  return ports
}

function labelOf({ handle, path }: GraphEdge['from']): string {
  return cut(`${handle}${path ?? ''}`, LABEL_MAX)
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text
}

function boxOf(node: GraphNode, ports: number, above: string): Box {
  const path = above === '' ? node.id : `${above}/${node.id}`
  const inner = node.kind === 'map' ? pictureOf(node.config.body.nodes, node.config.body.edges ?? [], path) : undefined
  const title = cut(node.title ?? node.id, LETTERS_MAX)
  const note = cut(noteOf(node), LETTERS_MAX)
  const words = Math.max(title.length, note.length) * LETTER + ICON
  return {
    id: node.id,
    path,
    kind: node.kind,
    title,
    note,
    x: 0,
    y: 0,
    width: Math.max(BOX_MIN, words, inner ? inner.width + 2 * INNER : 0),
    height: Math.max(BOX_HEIGHT, ports * PORT + 12, inner ? inner.height + INNER_HEAD + INNER : 0),
    inner,
  }
}

export function noteOf(node: GraphNode): string {
  switch (node.kind) {
    case 'tool':
      return node.config.tool
    case 'agent':
      return node.config.agent
    case 'condition':
      return 'condition'
    case 'map':
      return 'for each item'
    case 'human':
      return 'asks a person'
    default:
      return node.kind
  }
}

/** One spot in each layer between its ends, so that no line runs behind a box. */
function passing({ from, to }: GraphEdge, begin: Spot, end: Spot): Spot[] {
  const between = Math.max(0, end.layer - begin.layer - 1)
  return Array.from({ length: between }, (_, index) => ({
    id: `${from.node} ${from.handle} ${to.node} ${to.handle} ${index}`,
    box: undefined,
    layer: begin.layer + 1 + index,
    width: 0,
    height: EDGE_HEIGHT,
    x: 0,
    y: 0,
  }))
}

/** The order within each layer in which few lines cross: each near the middle of what it is joined with. */
function columnsOf(boxes: readonly Spot[], ways: readonly Way[]): Spot[][] {
  const all = [...new Set([...boxes, ...ways.flatMap(({ spots }) => spots)])]
  const count = Math.max(0, ...all.map(({ layer }) => layer + 1))
  const columns = Array.from({ length: count }, (_, layer) => all.filter((spot) => spot.layer === layer))
  const before = new Map<Spot, Spot[]>()
  const after = new Map<Spot, Spot[]>()
  const join = (joins: Map<Spot, Spot[]>, one: Spot, other: Spot) => joins.set(one, [...(joins.get(one) ?? []), other])
  for (const { spots } of ways) {
    for (const [index, spot] of spots.entries()) {
      const next = spots[index + 1]
      if (!next) continue
      join(after, spot, next)
      join(before, next, spot)
    }
  }
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const isForward = sweep % 2 === 0
    const order = isForward ? columns : [...columns].reverse()
    const joined = isForward ? before : after
    for (const column of order) {
      const places = new Map(columns.flatMap((spots) => spots.map((spot, index) => [spot, index] as const)))
      const middle = (spot: Spot) => {
        const near = joined.get(spot) ?? []
        if (near.length === 0) return places.get(spot) ?? 0
        return near.reduce((sum, one) => sum + (places.get(one) ?? 0), 0) / near.length
      }
      const middles = new Map(column.map((spot) => [spot, middle(spot)]))
      column.sort((one, other) => (middles.get(one) ?? 0) - (middles.get(other) ?? 0))
    }
  }
  return columns
}

function place(columns: readonly Spot[][], ports: ReadonlyMap<string, readonly string[]>) {
  const heights = columns.map((column) => column.reduce((sum, spot) => sum + spot.height + GAP_Y, -GAP_Y))
  const height = Math.max(0, ...heights)
  let x = 0
  for (const [index, column] of columns.entries()) {
    const width = Math.max(0, ...column.map((spot) => spot.width))
    let y = (height - (heights[index] ?? 0)) / 2
    for (const spot of column) {
      spot.x = x
      spot.y = y
      if (!spot.box) spot.width = width
      y += spot.height + GAP_Y
    }
    // Room for the names of what leaves this layer.
    const letters = column.flatMap(({ id, box }) => (box ? (ports.get(id) ?? []) : [])).map(({ length }) => length)
    x += width + (index < columns.length - 1 ? GAP_X + Math.max(0, ...letters) * (LETTER - 0.8) : 0)
  }
  return { width: x, height }
}

function linesOf(
  ways: readonly Way[],
  ports: ReadonlyMap<string, readonly string[]>,
  /** Where each layer ends: before that a line does not turn, since wider boxes stand above and below. */
  ends: readonly number[],
): Line[] {
  const coming = new Map<Spot, Way[]>()
  for (const way of ways) {
    const end = way.spots.at(-1)
    if (end) coming.set(end, [...(coming.get(end) ?? []), way])
  }
  for (const [, all] of coming) all.sort((one, other) => (one.spots.at(-2)?.y ?? 0) - (other.spots.at(-2)?.y ?? 0))
  const labelled = new Set<string>()
  return ways.flatMap((way): Line[] => {
    const [from, to] = [way.spots[0], way.spots.at(-1)]
    if (!from || !to) return []
    const label = labelOf(way.edge.from)
    const outs = ports.get(from.id) ?? []
    const ins = coming.get(to) ?? []
    const begin = { x: from.x + from.width, y: share(from, outs.indexOf(label), outs.length) }
    const end = { x: to.x, y: share(to, ins.indexOf(way), ins.length) }
    const through = way.spots.slice(1, -1).flatMap(({ x, y, width, height }): Point[] => [
      { x, y: y + height / 2 },
      { x: x + width, y: y + height / 2 },
    ])
    const port = `${from.id} ${label}`
    const isFirst = !labelled.has(port)
    labelled.add(port)
    return [
      {
        id: `${port} ${to.id} ${way.edge.to.handle}`,
        d: curve([begin, { x: ends[from.layer] ?? begin.x, y: begin.y }, ...through, end]),
        label: isFirst ? label : '',
        labelX: begin.x + 6,
        labelY: begin.y - 5,
      },
    ]
  })
}

function share({ y, height }: Spot, index: number, count: number): number {
  return y + (height * (Math.max(0, index) + 1)) / (count + 1)
}

function curve([begin, ...rest]: readonly Point[]): string {
  if (!begin) return ''
  let last = begin
  const parts = rest.flatMap((point) => {
    if (point.x === last.x && point.y === last.y) return []
    const bend = Math.max(12, (point.x - last.x) / 2)
    const part =
      point.y === last.y
        ? `L${at(point)}`
        : `C${at({ x: last.x + bend, y: last.y })} ${at({ x: point.x - bend, y: point.y })} ${at(point)}`
    last = point
    return [part]
  })
  return `M${at(begin)} ${parts.join(' ')}`
}

const at = ({ x, y }: Point) => `${Math.round(x * 10) / 10},${Math.round(y * 10) / 10}`
