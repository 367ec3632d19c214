import { expect, it } from 'vitest'
import { reasonOf, remedyOf, upstreamOf, violationsOf } from './remedy'

const error = (code: string, details?: unknown) => ({ code, message: 'no', details }) as Parameters<typeof remedyOf>[0]

it('the finer reason has the word before the code', () => {
  expect(remedyOf(error('POLICY_DENIED', { reason: 'budget' }), 'echo')).toMatch(/budget is spent/)
  expect(remedyOf(error('POLICY_DENIED', { reason: 'policy' }), 'echo')).toMatch(/names what forbids/)
  expect(remedyOf(error('POLICY_DENIED', { reason: 'not_found' }), 'echo')).toMatch(/`echo`/)
  expect(remedyOf(error('UNKNOWN'), 'echo')).toBe('')
})

it('places in the input are named as people write them, whatever came', () => {
  const violations = [{ pointer: '/a/0/b~1c', expected: 'a string', found: '1', message: 'm' }, null, { pointer: '' }]
  expect(violationsOf(error('VALIDATION_ERROR', { violations })).map(({ field }) => field)).toEqual([
    'a.0.b/c',
    'the input',
    'the input',
  ])
  expect(violationsOf(error('VALIDATION_ERROR', { violations: 'x' }))).toEqual([])
  expect(reasonOf(error('UNKNOWN', 7))).toBe('')
})

it('a server that wants a token is linked by its page, and nothing else is', () => {
  expect(upstreamOf(error('AUTH_REQUIRED', { url: '/upstreams/issues' }))).toBe('issues')
  expect(upstreamOf(error('AUTH_REQUIRED', { url: 'https://evil.example/upstreams/issues' }))).toBeUndefined()
  expect(upstreamOf(error('AUTH_REQUIRED', { url: '/upstreams/../people' }))).toBeUndefined()
  expect(remedyOf(error('AUTH_REQUIRED'), 'echo')).toMatch(/secret set/)
  expect(remedyOf(error('AUTH_REQUIRED', { url: '/upstreams/issues' }), 'echo')).toBe('')
})
