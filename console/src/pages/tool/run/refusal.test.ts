import { expect, test } from 'vitest'
import { ApiError } from '../../../api/errors'
import { findingsOfError, findingsOfProblem, reasonOf } from './refusal'

test('violations stand at their fields, without the place in the words', () => {
  const violations = [
    { pointer: '/seconds', message: '`/seconds` must be a number, got the text "x"' },
    { pointer: '/b', message: 'something else' },
    { pointer: 7, message: 'no place' },
    null,
  ]
  const error = { code: 'VALIDATION_ERROR', message: 'no', details: { reason: 'schema', violations } } as const
  expect(findingsOfError(error)).toEqual([
    { pointer: '/seconds', message: 'Must be a number, got the text "x".' },
    { pointer: '/b', message: 'Something else.' },
  ])
  expect(reasonOf(error)).toBe('schema')
})

test.each([
  ['the place a tool named', '/expression', '`expression`: a number is missing', 'A number is missing.'],
  ['a place below', '/lines/1/sku', '`sku`: nobody sells it', 'Nobody sells it.'],
  ['words that do not begin with it', '/to', 'the address is refused', 'The address is refused.'],
])('a tool’s own refusal stands at %s', (_, pointer, message, told) => {
  const error = { code: 'VALIDATION_ERROR', message, details: { reason: 'schema', pointer } } as const
  expect(findingsOfError(error)).toEqual([{ pointer, message: told }])
  // Only of what was sent: elsewhere a pointer means something else.
  expect(findingsOfError({ ...error, code: 'PROVIDER_ERROR' })).toEqual([])
})

test('a problem points into the body, a finding into the input', () => {
  const problem = (pointer: string) =>
    new ApiError(400, {
      type: '',
      title: '',
      status: 400,
      detail: 'bad',
      code: 'VALIDATION_ERROR',
      remedy: '',
      pointer,
    })
  expect(findingsOfProblem(problem('/input/a'))).toEqual([{ pointer: '/a', message: 'Bad.' }])
  expect(findingsOfProblem(problem('/request_id'))).toEqual([])
  expect(findingsOfProblem(problem('/inputs/a'))).toEqual([])
  expect(findingsOfProblem(new Error('x'))).toEqual([])
})
