import { expect, it } from 'vitest'
import { eventWords } from './eventWords'

const words = (type: string, data: object) => eventWords({ type, data, actor: 'me' } as never, 'me')

it('a question to a model says how much was asked', () => {
  const data = { turn: 0, model: 'play/m', messages: 1, tools: 2 }
  expect(words('model.requested', data)).toBe('question 1 to play/m, 1 message, 2 tools')
})

it('an answer says what it took, and whether a model said it', () => {
  const usage = { input_tokens: 240, cached_tokens: 200, output_tokens: 18 }
  const answer = { turn: 1, kind: 'openai_chat', calls: 1, usage, cost: '0.01', tries: 2 }
  expect(words('model.completed', answer)).toBe(
    'answer 2, 1 call, 240 tokens in (200 cached), 18 out, cost 0.01, 2 tries',
  )
  const scripted = { turn: 0, kind: 'scripted', calls: 0, usage: { ...usage, cached_tokens: 0 }, cost: '0', tries: 1 }
  expect(words('model.completed', scripted)).toBe('answer 1, scripted: no model said it, 240 tokens in, 18 out')
})

it('a failure says why', () => {
  const data = { turn: 0, message: 'too busy', code: 'PROVIDER_ERROR', reason: 'upstream_5xx' }
  expect(words('model.failed', data)).toBe('question 1, too busy, PROVIDER_ERROR upstream_5xx')
})

it('a limit says which one and how much was used', () => {
  const data = { limit: 'max_iterations', most: 10, used: 10, message: 'asked 10 times' }
  expect(words('limit.reached', data)).toBe('max_iterations, 10 of 10, asked 10 times')
})

it('what a model says is shown as it comes', () => {
  expect(words('model.delta', { text: ' Three lamps. ' })).toBe('Three lamps.')
})

it.each([
  ['run.started', { title: 'Lamps' }, 'it began, “Lamps”'],
  ['run.started', { run_id: '019a8f00-0000-7000-8000-00000000abcd' }, 'the run …0000abcd below began'],
  ['run.waiting', { approval_id: 'a' }, 'it waits for an approval'],
  ['run.waiting', { input_id: 'i' }, 'it waits for an answer'],
  ['run.resumed', { approval_id: 'a' }, 'it goes on'],
  ['run.completed', {}, 'it ended'],
  ['run.failed', { message: 'too busy', code: 'PROVIDER_ERROR' }, 'it failed: too busy, PROVIDER_ERROR'],
  ['tool.needs_approval', { tool: 'write_file' }, 'write_file, a person must decide'],
  ['tool.approved', { tool: 'write_file' }, 'write_file, it may run'],
  ['approval.requested', { need: 1 }, 'people are asked'],
  ['approval.requested', { need: 2 }, '2 people must approve'],
  ['approval.decided', { state: 'approved' }, 'approved'],
  ['approval.expired', {}, 'nobody decided in time'],
  ['input.requested', { input_id: 'i' }, 'people are asked a question'],
  ['input.submitted', { input_id: 'i' }, 'the question was answered'],
])('%s says what happened', (type, data, told) => {
  expect(words(type, data)).toBe(told)
})
