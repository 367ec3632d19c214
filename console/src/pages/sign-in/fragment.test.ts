import { expect, test } from 'vitest'
import { safeNext } from './fragment'

test.each([
  ['/tools?q=a', '/tools?q=a'],
  ['/', '/'],
  [undefined, '/'],
  ['', '/'],
  ['//evil.test/a', '/'],
  ['/\\evil.test', '/'],
  ['https://evil.test', '/'],
  ['javascript:alert(1)', '/'],
  ['tools', '/'],
])('after the sign-in %s leads to %s', (next, expected) => {
  expect(safeNext(next)).toBe(expected)
})
