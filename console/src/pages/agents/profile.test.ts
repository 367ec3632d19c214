import { expect, test } from 'vitest'
import { profileFacts } from './profile'

test.each([
  [{ name: 'a' }, ['demands nothing']],
  [{ name: 'a', requires_approval: true, max_cost_per_day: '5' }, ['every call asks', 'at most 5 a day']],
  [{ name: 'a', requires_approval: false, hosts: ['x.test'] }, ['asks only where it must', 'only 1 host']],
  [{ name: 'a', deny_tools: ['rm'], guardrails: [] }, ['not rm']],
])('%j is said as %j', (profile, expected) => {
  expect(profileFacts(profile)).toEqual(expected)
})
