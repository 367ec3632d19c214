import { expect, test } from 'vitest'
import { keys, type Secret, stops } from './standing'

const secret = (change: Partial<Secret>): Secret => ({
  name: 'KEY',
  required: true,
  purpose: null,
  scope: null,
  given: false,
  ...change,
})

test.each([
  ['no secrets', [], undefined],
  ['a required one that nobody has', [secret({})], 'missing key'],
  ['an optional one that nobody has', [secret({ required: false })], undefined],
  ['one that its owner did not give', [secret({ scope: 'workspace' })], 'key not given'],
  ['one of the person', [secret({ scope: 'user', given: true })], 'using your key'],
  ['one of the workspace', [secret({ scope: 'workspace', given: true })], 'using workspace key'],
  ['one of the organisation', [secret({ scope: 'org', given: true })], 'using organisation key'],
  ['the worst of several', [secret({ scope: 'user', given: true }), secret({ name: 'B' })], 'missing key'],
] as const)('keys: %s', (_, secrets, words) => {
  expect(keys(secrets)?.words).toBe(words)
})

test.each([
  [{ state: 'active', enabled: true }, undefined],
  [{ state: 'deprecated', enabled: true }, 'deprecated'],
  [{ state: 'deprecated', enabled: false }, 'switched off'],
  [{ state: 'active', enabled: true, stopped: 'the tool `x` is stopped' }, 'stopped'],
  [{ state: 'blocked', enabled: false, stopped: 'all' }, 'blocked'],
  [{ state: 'active', enabled: true, why_not: 'tools of kind `http` cannot run on this server' }, 'no runner here'],
  [{ state: 'deprecated', enabled: true, why_not: 'no runner' }, 'no runner here'],
  [{ state: 'active', enabled: false, why_not: 'no runner' }, 'switched off'],
] as const)('stops: %o', (tool, words) => {
  expect(stops({ requires_approval: false, ...tool })?.words).toBe(words)
})
