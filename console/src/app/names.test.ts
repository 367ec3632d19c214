import { expect, it } from 'vitest'
import { nameOf } from './names'

const ID = '01a1e0f1-a14c-70ab-b61e-94d19e8414e0'
const me = { principal: 'user:1', name: 'ada' }

it('says names where they are known, and never a whole id', () => {
  expect(nameOf('user:1', me, [])).toBe('ada')
  expect(nameOf(`user:${ID}`, me, [{ id: ID, name: 'grace' }])).toBe('grace')
  expect(nameOf(`user:${ID}`, me, [])).toBe('user …9e8414e0')
  expect(nameOf(`agent:${ID}`, me, [{ id: ID, name: 'grace' }])).toBe('agent …9e8414e0')
  expect(nameOf(ID, me, [{ id: ID, name: 'grace' }])).toBe('grace')
  expect(nameOf('1', me, [])).toBe('ada')
  expect(nameOf('system', me, [])).toBe('system')
})
