import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { layersOf, pictureOf } from './layout'
import type { GraphEdge, GraphNode } from './queries'

const node = (id: string) => ({ id, kind: 'tool', config: { tool: `${id}_tool` } }) as GraphNode
const edge = (from: string, to: string, handle = 'output') =>
  ({ from: { node: from, handle }, to: { node: to, handle: 'input' } }) as GraphEdge

describe('a graph as a picture', () => {
  it('puts each node right of all that lead to it', () => {
    const nodes = ['a', 'b', 'c', 'd'].map(node)
    const layers = layersOf(nodes, [edge('a', 'b'), edge('b', 'c'), edge('a', 'c'), edge('c', 'd'), edge('a', 'd')])
    expect([...layers]).toEqual([
      ['a', 0],
      ['b', 1],
      ['c', 2],
      ['d', 3],
    ])
  })

  it('ends with a graph that turns in circles, or names nodes that are not there', () => {
    const nodes = ['a', 'b'].map(node)
    const picture = pictureOf(nodes, [edge('a', 'b'), edge('b', 'a'), edge('a', 'a'), edge('a', 'gone')])
    expect(picture.boxes).toHaveLength(2)
    expect(picture.lines).toHaveLength(3)
  })

  it('draws what is done for each item within its node', () => {
    const each = {
      id: 'each',
      kind: 'map',
      config: { body: { nodes: [node('in'), node('say')], edges: [edge('in', 'say', 'item')] } },
    } as unknown as GraphNode
    const [box] = pictureOf([each], []).boxes
    expect(box?.inner?.boxes.map(({ path }) => path)).toEqual(['each/in', 'each/say'])
    expect(box?.width).toBeGreaterThan(box?.inner?.width ?? 0)
    expect(box?.height).toBeGreaterThan(box?.inner?.height ?? 0)
  })

  it('names an output once, however many lines begin there', () => {
    const { lines } = pictureOf(['a', 'b', 'c'].map(node), [edge('a', 'b'), edge('a', 'c')])
    expect(lines.map(({ label }) => label)).toEqual(['output', ''])
  })

  it('never puts two nodes on top of each other, nor one outside', () => {
    const graphs = fc.integer({ min: 1, max: 14 }).chain((count) =>
      fc.record({
        count: fc.constant(count),
        joins: fc.array(fc.tuple(fc.nat(count - 1), fc.nat(count - 1)), { maxLength: 30 }),
      }),
    )
    fc.assert(
      fc.property(graphs, ({ count, joins }) => {
        const nodes = Array.from({ length: count }, (_, index) => node(`n${index}`))
        const edges = joins.filter(([one, other]) => one < other).map(([one, other]) => edge(`n${one}`, `n${other}`))
        const { boxes, width, height } = pictureOf(nodes, edges)
        expect(boxes).toHaveLength(count)
        for (const box of boxes) {
          expect(box.x >= 0 && box.y >= -0.01 && box.x + box.width <= width + 0.01).toBe(true)
          expect(box.y + box.height <= height + 0.01).toBe(true)
          for (const other of boxes) {
            if (other === box) continue
            const isApart =
              box.x + box.width <= other.x ||
              other.x + other.width <= box.x ||
              box.y + box.height <= other.y ||
              other.y + other.height <= box.y
            expect(isApart).toBe(true)
          }
        }
      }),
    )
  })
})
