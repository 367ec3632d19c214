import { expect, test } from 'vitest'
import { hintOf } from './hints'
import { isShortName } from './shape'

test.each([
  [{ description: 'How long.', maximum: 60, minimum: 0 }, 'number', 'How long · 0 to 60'],
  [{ description: 'And so on...', maxLength: 5 }, 'text', 'And so on... · at most 5 characters'],
  [{ description: 'Alone.' }, 'text', 'Alone.'],
  [{ maxLength: 1_048_576 }, 'text', 'at most 1,048,576 characters'],
] as const)('%o', (schema, kind, told) => {
  expect(hintOf(schema, kind)).toBe(told)
})

test.each([
  ['path', { maxLength: 1024 }, 'a', true],
  ['target_path', { maxLength: 1024 }, undefined, true],
  ['path', { maxLength: 1024 }, 'a\nb', false],
  ['path', { maxLength: 1_000_000 }, 'a', false],
  ['path', { maxLength: 1024, format: 'markdown' }, 'a', false],
  ['text', { maxLength: 1024 }, 'a', false],
] as const)('%s of %o is one line', (name, schema, value, isShort) => {
  expect(isShortName(name, schema, value)).toBe(isShort)
})
