import { expect, it } from 'vitest'
import { endingOf } from './ending'
import type { RunEvent } from './queries'

const reached = (data: object) => ({ type: 'limit.reached', run_id: 'a', data }) as unknown as RunEvent

it('says which limit ended a run, how much was used, and whose limit it was', () => {
  expect(endingOf([], {})).toBeUndefined()
  const data = { limit: 'max_iterations', most: 1, used: 1 }
  expect(endingOf([reached(data)], { max_iterations: 10 })).toEqual({
    limit: 'max_iterations',
    words: 'questions to the model',
    used: '1 of 1',
    of: 'run',
  })
  expect(endingOf([reached(data)], { max_iterations: 1 })?.of).toBe('agent')
  expect(endingOf([reached(data)], undefined)?.of).toBe('unknown')
  expect(endingOf([reached({ limit: 'max_depth' })], {})?.of).toBe('unknown')
})

it('does not take the limit of a run below for its own', () => {
  expect(endingOf([reached({ limit: 'max_tokens', run_id: 'b' })], {})).toBeUndefined()
})
