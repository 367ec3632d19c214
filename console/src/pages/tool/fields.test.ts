import { expect, test } from 'vitest'
import { fieldRows } from './fields'

test('fields, members of members and of items, each by its path', () => {
  const rows = fieldRows({
    type: 'object',
    required: ['place'],
    properties: {
      place: { $ref: '#/$defs/place', description: 'Where.' },
      tags: { type: 'array', items: { type: 'string' }, maxItems: 3, uniqueItems: true },
      lines: { type: 'array', items: { type: 'object', properties: { n: { type: ['integer', 'null'], default: 1 } } } },
      how: { enum: ['a', 2], default: 'a' },
      either: { oneOf: [{ type: 'string' }, { type: 'number' }] },
    },
    $defs: { place: { type: 'object', properties: { city: { type: 'string', minLength: 1 } } } },
  })
  expect(
    rows.map(({ path, type, required, rules, default: value }) => [path, type, required, rules.join('; '), value]),
  ).toEqual([
    ['place', 'object', true, '', ''],
    ['place.city', 'string', false, 'at least 1 characters', ''],
    ['tags', 'array of string', false, 'at most 3 items; no item twice', ''],
    ['lines', 'array of object', false, '', ''],
    ['lines[].n', 'integer or null', false, '', '1'],
    ['how', 'value', false, 'one of a, 2', '"a"'],
    ['either', 'string or number', false, '', ''],
  ])
  expect(rows[0]?.description).toBe('Where.')
})

test('a schema that refers to itself ends', () => {
  const rows = fieldRows({ type: 'object', properties: { next: { $ref: '#' } } })
  expect(rows.length).toBeLessThan(20)
})
