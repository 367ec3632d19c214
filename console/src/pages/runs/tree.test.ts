import { expect, it } from 'vitest'
import type { RunRow } from './queries'
import { type Twig, treeOf } from './tree'

const run = (id: string, parent_run_id?: string) => ({ id, parent_run_id }) as RunRow
const words = (twigs: readonly Twig[]): string =>
  twigs.map(({ run, under }) => (under.length > 0 ? `${run.id}(${words(under)})` : run.id)).join(' ')

it.each([
  [[], ''],
  [[run('b', 'a'), run('c', 'a')], 'b c'],
  [[run('c', 'b'), run('b', 'a'), run('d', 'c'), run('e', 'a')], 'b(c(d)) e'],
  // One that is not shown began it.
  [[run('c', 'gone')], 'c'],
])('puts each run below the one that began it', (runs, told) => {
  expect(words(treeOf('a', runs))).toBe(told)
})
