import { expect, it } from 'vitest'
import type { GraphNode } from './queries'
import { severityAt, standingOf, titleAt } from './words'

it('tells of many items what needs somebody first', () => {
  const nodes = [
    { node: 'each', state: 'running', count: 1 },
    { node: 'each/say', state: 'completed', count: 900 },
    { node: 'each/say', state: 'waiting', count: 1 },
    { node: 'each/say', state: 'running', count: 2 },
  ] as const
  expect(standingOf(nodes, 'each')).toEqual({ state: 'running', words: 'running' })
  expect(standingOf(nodes, 'each/say')).toEqual({ state: 'waiting', words: '1 of 903 waits' })
  expect(standingOf(nodes, 'out')).toBeUndefined()
})

it('finds the gravest of what is found in a node, and not in the next', () => {
  const findings = [
    { pointer: '/nodes/1/config/tool', severity: 'warning' },
    { pointer: '/nodes/10', severity: 'error' },
    { pointer: '/nodes/1', severity: 'note' },
  ] as const
  expect(severityAt(findings, '/nodes/1')).toBe('warning')
  expect(severityAt(findings, '/nodes/10')).toBe('error')
  expect(severityAt(findings, '/nodes/0')).toBeUndefined()
})

it('finds the title of a node of a run, also below a map', () => {
  const say = { id: 'say', kind: 'tool', title: 'Say it', config: { tool: 'echo' } }
  const each = { id: 'each', kind: 'map', title: 'Greet each', config: { body: { nodes: [say] } } }
  const nodes = [each, { id: 'out', kind: 'output' }] as unknown as GraphNode[]
  expect(titleAt(nodes, 'each')).toBe('Greet each')
  expect(titleAt(nodes, 'each/0/say')).toBe('Say it')
  expect([titleAt(nodes, 'out'), titleAt(nodes, 'gone'), titleAt(nodes, 'out/0/say')]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
})
