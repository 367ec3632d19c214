import { expect, it } from 'vitest'
import { outcomeOf } from './outcome'

it('tells what was refused from what failed', () => {
  expect(outcomeOf({ status: 'failed', error_code: 'POLICY_DENIED' })).toBe('refused')
  expect(outcomeOf({ status: 'rejected', error_code: 'POLICY_DENIED' })).toBe('refused')
  expect(outcomeOf({ status: 'failed', error_code: 'TIMEOUT' })).toBe('failed')
  expect(outcomeOf({ status: 'cancelled' })).toBe('cancelled')
  expect(outcomeOf({ status: 'outcome_unknown' })).toBe('open')
})
