import { expect, test } from 'vitest'
import { hear, NOTHING_HEARD, type Part } from './heard'

const part = (after_seq: number, number: number, text: unknown): Part => ({ after_seq, part: number, data: { text } })

test('parts stand in their order, each once', () => {
  const told = [part(1, 1, 'a'), part(1, 3, 'c'), part(1, 2, 'b'), part(1, 1, 'a'), part(2, 1, 'd')]
  expect(told.reduce(hear, NOTHING_HEARD).text).toBe('abcd')
})

test('what is no text says nothing', () => {
  expect([part(1, 1, 7), { data: null }, { data: 'x' }].reduce(hear, NOTHING_HEARD)).toEqual(NOTHING_HEARD)
})
