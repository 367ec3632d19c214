import { expect, it } from 'vitest'
import { graphPath, severityAt, standingOf, workflowOf } from './words'

it.each([
  ['in', 'in'],
  ['each/0/say', 'each/say'],
  ['each/12/deep/3/say', 'each/deep/say'],
  ['7', '7'],
])('knows which node of the graph ran at %s', (path, told) => {
  expect(graphPath(path)).toBe(told)
})

it('tells of many items what needs somebody first', () => {
  const nodes = [
    { path: 'each', state: 'running' },
    { path: 'each/0/say', state: 'completed' },
    { path: 'each/1/say', state: 'waiting' },
    { path: 'each/2/say', state: 'running' },
  ] as const
  expect(standingOf(nodes, 'each')).toEqual({ state: 'running', words: 'running' })
  expect(standingOf(nodes, 'each/say')).toEqual({ state: 'waiting', words: '1 of 3 waits' })
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

it('takes only such a run for one of a workflow as the server begins', () => {
  expect(workflowOf({ title: 'Workflow greet-all (revision 12)' })).toEqual({ name: 'greet-all', revision: 12 })
  expect(workflowOf({ title: 'Workflow greet-all (revision 12)', agent_id: 'a' })).toBeUndefined()
  expect(workflowOf({ title: 'My Workflow greet (revision 1)' })).toBeUndefined()
  expect(workflowOf({ title: null })).toBeUndefined()
})
