import { expect, test } from 'vitest'
import { countsOf, widest } from './counts'
import type { ToolRow } from './queries'

const tool = (category: string, risk: string, egress_class: string) =>
  ({ category, risk, egress_class, type: 'api', origin: 'code' }) as ToolRow

const TOOLS = [tool('data/charts', 'safe', 'none'), tool('data', 'safe', 'write'), tool('web', 'critical', 'write')]

test('a choice is counted with the choices of the other filters, not of its own', () => {
  const counts = countsOf(TOOLS, { risk: 'safe' })
  expect([...counts.risk]).toEqual([
    ['safe', 2],
    ['critical', 1],
  ])
  expect([...counts.class]).toEqual([
    ['none', 1],
    ['write', 1],
  ])
  expect(counts.origin.get('code')).toBe(2)
})

test('a category counts what lies below it, and nothing that only begins alike', () => {
  const { category } = countsOf([...TOOLS, tool('database', 'safe', 'none')], {})
  expect(Object.fromEntries(category)).toEqual({ data: 2, 'data/charts': 1, web: 1, database: 1 })
  expect(countsOf(TOOLS, { category: 'data' }).risk.get('safe')).toBe(2)
})

test('the list behind the choices keeps the words and the states', () => {
  expect(widest({ q: 'mail', risk: 'safe', category: 'web', state: 'off', deprecated: '' })).toEqual({
    q: 'mail',
    state: 'off',
  })
})
