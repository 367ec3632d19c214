import { expect, test } from 'vitest'
import { type Card, type Earlier, earlierWords, endWords } from './card'

const earlier = (change: Partial<Earlier>): Earlier => ({
  call_id: 'c',
  status: 'completed',
  at: '2026-03-04T05:06:07Z',
  principal: 'user:2',
  principal_name: 'eve',
  same_caller: false,
  ...change,
})

test.each([
  ['the same person', { agent: null, asked_by: 'ada' }, { same_caller: true }, 'of the same caller, ada'],
  [
    'both the same',
    { agent: 'robot', asked_by: 'ada' },
    { same_caller: true, agent: 'robot' },
    'of the same caller, robot for ada',
  ],
  [
    'the agent for somebody else',
    { agent: 'robot', asked_by: 'ada' },
    { agent: 'robot' },
    'of another caller, robot for eve',
  ],
  ['the person by an agent', { agent: null, asked_by: 'eve' }, { agent: 'robot' }, 'of another caller, robot for eve'],
  ['somebody without a name', { agent: null, asked_by: 'ada' }, { principal_name: null }, 'of another caller, user:2'],
] as const)('whose call it is compared with: %s', (_, card, change, words) => {
  expect(earlierWords(card, earlier(change))).toBe(words)
})

test('who decided is told by name, and oneself as you', () => {
  const card = { state: 'approved', decided_by: 'user:1', decided_by_name: 'ann' } as Card
  expect(endWords(card)).toBe('Approved by ann')
  expect(endWords(card, 'user:2')).toBe('Approved by ann')
  expect(endWords(card, 'user:1')).toBe('Approved by you')
  expect(endWords({ ...card, state: 'rejected' }, 'user:1')).toBe('Rejected by you')
})
