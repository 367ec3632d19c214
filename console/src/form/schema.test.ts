import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Json, JsonSchema } from './json'
import { modelOf } from './model'
import { parseJson } from './parse'
import { isTame } from './pattern'
import { fieldsOf, initialValue, prune, serverFindings, validate } from './schema'
import { blankOf, chosenOf, shapeOf } from './shape'
import { numberOf, steppedNumber } from './TextFields'
import { humanised } from './words'

const shape = (schema: JsonSchema, value?: Json) => shapeOf(modelOf(schema), schema, value)

describe('fields that appear when others have a value', () => {
  const schema: JsonSchema = {
    type: 'object',
    required: ['channel'],
    properties: {
      channel: { enum: ['email', 'letter', 'sms'] },
      urgent: { type: 'boolean', default: false },
      copies: { type: 'integer' },
      subject: { type: 'string', 'x-field': { visible_if: { channel: ['email', 'letter'] } } },
      why: { type: 'string', 'x-field': { visible_if: { urgent: true, channel: 'sms' } } },
      calm: { type: 'string', 'x-field': { visible_if: { urgent: false } } },
      collate: { type: 'boolean', 'x-field': { visible_if: { copies: true } } },
    },
  }
  const always = ['channel', 'urgent', 'copies']
  it.each<[string, Json, string[]]>([
    ['of nothing, the default of another', {}, ['calm']],
    ['one of several', { channel: 'letter' }, ['subject', 'calm']],
    ['all that is asked', { channel: 'sms', urgent: true }, ['why']],
    ['only some of it', { channel: 'email', urgent: true }, ['subject']],
    ['that it is filled in', { copies: 2 }, ['calm', 'collate']],
    ['a value that is there is never hidden', { channel: 'sms', subject: 'x' }, ['subject', 'calm']],
  ])('%s', (_, value, names) => {
    expect(fieldsOf(schema, value).map(({ name }) => name)).toEqual([...always, ...names])
  })
  it('begins without what is not asked for', () => {
    const held: JsonSchema = {
      type: 'object',
      properties: {
        a: { type: 'boolean' },
        b: { type: 'string', default: 'x', 'x-field': { visible_if: { a: true } } },
      },
    }
    expect(initialValue(held)).toEqual({})
  })
})

describe('kinds of fields', () => {
  it.each<[string, JsonSchema]>([
    ['text', { type: 'string' }],
    ['long', { type: 'string', maxLength: 4000 }],
    ['secret', { type: 'string', writeOnly: true }],
    ['date', { type: 'string', format: 'date' }],
    ['date-time', { type: 'string', format: 'date-time' }],
    ['file', { type: 'string', contentEncoding: 'base64' }],
    ['number', { type: 'integer' }],
    ['boolean', { type: 'boolean' }],
    ['choice', { enum: ['a', 1, null] }],
    ['choice', { oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] }],
    ['choices', { type: 'array', uniqueItems: true, items: { enum: ['a', 'b'] } }],
    ['list', { type: 'array', items: { enum: ['a', 'b'] } }],
    ['object', { properties: { a: {} } }],
    ['union', { oneOf: [{ type: 'string' }, { type: 'number' }] }],
    ['union', { type: ['string', 'integer'] }],
    ['any', {}],
    ['any', true],
  ])('%s', (kind, schema) => {
    expect(shape(schema).kind).toBe(kind)
  })

  it('takes null as a way to be empty', () => {
    expect(shape({ type: ['string', 'null'] })).toMatchObject({ kind: 'text', nullable: true })
    expect(shape({ anyOf: [{ type: 'integer', minimum: 2 }, { type: 'null' }] })).toMatchObject({
      kind: 'number',
      nullable: true,
      schema: { minimum: 2 },
    })
  })

  it('follows references, also those that lead back', () => {
    const tree: JsonSchema = {
      type: 'object',
      required: ['name'],
      properties: { name: { $ref: '#/$defs/name' }, child: { $ref: '#' } },
      $defs: { name: { type: 'string', title: 'Full name' } },
    }
    expect(fieldsOf(tree, {}).map(({ name, label, required }) => [name, label, required])).toEqual([
      ['name', 'Full name', true],
      ['child', 'Child', false],
    ])
    expect(initialValue({ $ref: '#/$defs/a', $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } })).toEqual({})
  })
})

describe('conditions', () => {
  const schema: JsonSchema = {
    type: 'object',
    properties: { pay: { enum: ['card', 'bank'] }, note: { type: 'string' } },
    if: { properties: { pay: { const: 'bank' } }, required: ['pay'] },
    // biome-ignore lint/suspicious/noThenProperty: the keyword is called so
    then: { properties: { iban: { type: 'string' } }, required: ['iban'] },
    else: { properties: { card: { type: 'string' } } },
    dependentSchemas: { note: { properties: { author: { type: 'string' } } } },
    dependentRequired: { note: ['author'] },
  }
  const names = (value: Json) => fieldsOf(schema, value).map(({ name, required }) => (required ? `${name}!` : name))

  it('adds the fields of the branch that holds', () => {
    expect(names({})).toEqual(['pay', 'note', 'card'])
    expect(names({ pay: 'bank' })).toEqual(['pay', 'note', 'iban!'])
    expect(names({ pay: 'bank', note: 'x' })).toEqual(['pay', 'note', 'iban!', 'author!'])
  })
})

describe('unions', () => {
  const schema: JsonSchema = {
    oneOf: [
      {
        type: 'object',
        title: 'Card',
        properties: { kind: { const: 'card' }, number: { type: 'string' } },
        required: ['kind'],
      },
      {
        type: 'object',
        properties: { kind: { const: 'bank_transfer' }, iban: { type: 'string' } },
        required: ['kind'],
      },
    ],
  }
  const { alternatives } = shape(schema)
  const model = modelOf(schema)

  it('names alternatives by title, else by what tells them apart', () => {
    expect(alternatives.map(({ title }) => title)).toEqual(['Card', 'Bank transfer'])
  })
  it('knows an alternative by its discriminator, however incomplete the rest is', () => {
    expect(chosenOf(model, alternatives, { kind: 'bank_transfer', iban: 5 })).toBe(1)
    expect(chosenOf(model, alternatives, undefined)).toBe(-1)
  })
  it('begins an alternative with its fixed members', () => {
    expect(blankOf(model, alternatives[1]?.schema)).toEqual({ kind: 'bank_transfer' })
  })
})

describe('values', () => {
  it('begin with defaults and what must be there', () => {
    const schema: JsonSchema = {
      type: 'object',
      required: ['kind', 'address', 'lines'],
      properties: {
        kind: { const: 'order' },
        limit: { type: 'integer', default: 10 },
        address: { type: 'object', properties: { country: { default: 'DE' }, city: { type: 'string' } } },
        lines: { type: 'array', items: {} },
        extra: { type: 'object', properties: { a: {} } },
      },
    }
    expect(initialValue(schema)).toEqual({ kind: 'order', limit: 10, address: { country: 'DE' }, lines: [] })
  })
  it('lose items that were added and left empty, and nothing else', () => {
    const schema: JsonSchema = {
      type: 'object',
      properties: {
        n: { type: 'array', items: { type: 'number' } },
        m: { type: 'array', items: { type: ['number', 'null'] } },
      },
    }
    expect(prune({ n: [1, null], m: [null], other: [null] }, schema)).toEqual({ n: [1], m: [null], other: [null] })
  })
  it('folds what is advanced, or optional and too much', () => {
    const many = Object.fromEntries(Array.from({ length: 14 }, (_, index) => [`f${index}`, { type: 'string' }]))
    const schema: JsonSchema = {
      type: 'object',
      required: ['f13'],
      properties: { ...many, hidden: { type: 'string', 'x-advanced': true } },
    }
    const folded = fieldsOf(schema, {})
      .filter(({ advanced }) => advanced)
      .map(({ name }) => name)
    expect(folded).toEqual(['f7', 'f8', 'f9', 'f10', 'f11', 'f12', 'hidden'])
  })
})

describe('findings', () => {
  const schema: JsonSchema = {
    type: 'object',
    required: ['to'],
    additionalProperties: false,
    properties: {
      to: { $ref: '#/$defs/mail' },
      tags: { type: 'array', items: { type: 'string', minLength: 3 }, maxItems: 2 },
      shape: {
        oneOf: [{ type: 'string' }, { type: 'object', required: ['r'], properties: { r: { type: 'number' } } }],
      },
      'a/b': { type: 'integer', minimum: 3 },
    },
    $defs: { mail: { type: 'string', format: 'email' } },
  }
  it('speak in words, at the place', () => {
    expect(validate(schema, { tags: ['ab', 'abc', 'x'], shape: { r: 'big' }, 'a/b': 1, more: 1 })).toEqual([
      { pointer: '/to', message: 'Required: fill it in.' },
      { pointer: '/tags', message: 'May have at most 2 items.' },
      { pointer: '/tags/0', message: 'Must be at least 3 characters long.' },
      { pointer: '/tags/2', message: 'Must be at least 3 characters long.' },
      { pointer: '/shape/r', message: 'Must be a number.' },
      { pointer: '/a~1b', message: 'Must be 3 or more.' },
      { pointer: '/more', message: 'Not known here: remove it.' },
    ])
    expect(validate(schema, { to: 'x' })).toEqual([
      { pointer: '/to', message: 'Must be an email address, as ada@example.com.' },
    ])
    expect(validate(schema, { to: 'a@b.test', shape: { r: 1 } })).toEqual([])
  })
  it('never run a pattern that could stand still', () => {
    for (const pattern of ['^(a+)+$', '(a|a)*b', '^(([a-z])+.)+$', '(x{1,500}){1,500}', '[a-', 'a{9999}']) {
      expect(isTame(pattern), pattern).toBe(false)
    }
    for (const pattern of ['^[a-z]{2,}$', '^\\d{4}-\\d{2}$', '^(ab|cd)$', '^[A-Z]{3}-\\d+$', '[(]+', '\\(+']) {
      expect(isTame(pattern), pattern).toBe(true)
    }
    const hostile: JsonSchema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } }
    expect(validate(hostile, { a: `${'a'.repeat(60)}!` })).toEqual([])
  })
  it("of the server are said in the field's words", () => {
    const violations = [
      {
        pointer: '/a',
        expected: 'an integer',
        found: 'the text "3"',
        message: '`/a` must be an integer, got the text "3"; send it without quotes',
      },
      { pointer: '/b', expected: 'a string', found: 'nothing', message: '`/b` is missing; it must be a string' },
      {
        pointer: '/too',
        expected: 'one of the members to',
        found: 'a member `too`',
        message: '`/too` is not a known member; did you mean `to`?',
      },
      'odd',
    ]
    expect(serverFindings({ reason: 'schema', violations })).toEqual([
      { pointer: '/a', message: 'Must be an integer; send it without quotes.' },
      { pointer: '/b', message: 'Required: fill it in.' },
      { pointer: '/too', message: 'Not known here; did you mean `to`?' },
    ])
    expect(serverFindings(undefined)).toEqual([])
  })
  it('survive a schema that makes no sense', () => {
    for (const odd of [{ $ref: '#/nowhere' }, { properties: 5 }, { pattern: '(' }, { enum: 7 }, { items: [1] }]) {
      expect(() => validate({ type: 'object', properties: { a: odd as Json } }, { a: 'x' })).not.toThrow()
    }
  })
})

describe('text', () => {
  it('is read as JSON exactly where JSON.parse does, and says where not', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value, null, 2)
        const parsed = parseJson(text)
        if ('wrong' in parsed) return /beyond|too large/.test(parsed.wrong.message)
        return JSON.stringify(parsed.value) === JSON.stringify(JSON.parse(text))
      }),
    )
    fc.assert(
      fc.property(fc.stringMatching(/^[[\]{}",:0-9.eE+\- a\\untrlsf]*$/), (text) => {
        let expected: unknown
        try {
          expected = { value: JSON.parse(text) as unknown }
        } catch {
          expected = undefined
        }
        const parsed = parseJson(text)
        if ('value' in parsed) expect(expected).toEqual({ value: parsed.value })
        else if (expected) expect(parsed.wrong.message).toMatch(/beyond|too large|twice/)
      }),
      { numRuns: 2_000 },
    )
    expect(parseJson('{\n  "a": 1,\n  "a": 2\n}')).toEqual({
      wrong: { line: 3, column: 3, message: 'the name “a” is there twice' },
    })
    expect(parseJson('{"a": [1, 2}')).toMatchObject({ wrong: { line: 1, column: 12 } })
    expect(parseJson(`${'['.repeat(500)}`)).toMatchObject({ wrong: { message: 'nested deeper than 128 levels' } })
  })
  it('is a number where it is one, and itself where not', () => {
    expect(['', ' 12 ', '1.', '.5', '-3e2', '12a', '9007199254740993'].map(numberOf)).toEqual([
      undefined,
      12,
      1,
      0.5,
      -300,
      '12a',
      '9007199254740993',
    ])
  })
  it('steps within bounds', () => {
    expect(steppedNumber({ multipleOf: 0.1, maximum: 1 }, 0.2, 1, 1)).toBe(0.3)
    expect(steppedNumber({ maximum: 1 }, 1, 1, 10)).toBe(1)
    expect(steppedNumber({ minimum: 5 }, undefined, -1, 1)).toBe(5)
  })
  it('names fields as people do', () => {
    expect(['due_date', 'dueDate', 'customer-id', 'HTTPServer', 'sku', ''].map(humanised)).toEqual([
      'Due date',
      'Due date',
      'Customer ID',
      'HTTP server',
      'SKU',
      '',
    ])
  })
})
