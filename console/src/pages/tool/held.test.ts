import { expect, test } from 'vitest'
import { freshCount } from './held'

const rows = (...ids: readonly string[]) => ids.map((id) => ({ id }))

test.each([
  [rows('b', 'a'), 'b', 0],
  [rows('d', 'c', 'b', 'a'), 'b', 2],
  [rows('d'), 'b', 0],
  [rows(), 'b', 0],
])('%o above %s', (all, top, count) => {
  expect(freshCount(all, top)).toBe(count)
})
