import { expect, test } from 'vitest'
import { responsesForm } from './responses'

test('the function of Chat Completions, flat and not strict', () => {
  const inner = { name: 'f', description: 'Does it.', parameters: { type: 'object' } }
  const made = responsesForm(JSON.stringify({ type: 'function', function: inner }))
  expect(JSON.parse(made)).toEqual({ type: 'function', ...inner, strict: false })
})

test('what is no such form stays as it is', () => {
  expect(responsesForm('{"a":1}')).toBe('{"a":1}')
})
