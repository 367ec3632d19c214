// Values for a schema, right and wrong, for tests only: made by walking the schema, so that most of them come close.
import fc from 'fast-check'
import { isList, isObject, type Json, type JsonObject, type JsonSchema } from './json'
import { effective, listOf, type Model, typesOf } from './model'

const TEXTS = [
  '',
  'a',
  'ab',
  'hello',
  '2020-06-25',
  '2020-06-25T23:08:42Z',
  '23:08:00Z',
  '12345',
  'Ada Lovelace',
  'é😀',
  'a@b.test',
  'http://a.test/b',
]
const DEPTH_MAX = 3
const MEMBERS_MAX = 5

const anything = fc.oneof(
  fc.constantFrom<Json>(null, true, false, 0, 1, -1, 2.5, 10, 1000, ...TEXTS),
  fc.constantFrom<Json>([], {}, [1], ['a'], { a: 1 }),
)

/** Mostly of the kind that the schema asks for; sometimes not. */
export function valuesOf(model: Model, schema: JsonSchema, depth = 0): fc.Arbitrary<Json> {
  // Only what is asked for is made: a schema that contains itself has no end.
  const lazily = fc.constant(null).chain(() => fitting(model, effective(model, schema, undefined), depth))
  return fc.oneof({ weight: 9, arbitrary: lazily }, { weight: 1, arbitrary: anything })
}

function fitting(model: Model, whole: JsonObject, depth: number): fc.Arbitrary<Json> {
  if (whole.const !== undefined) return fc.constant(whole.const)
  if (isList(whole.enum) && whole.enum.length > 0) return fc.constantFrom(...whole.enum)
  const parts = [...listOf(whole.oneOf), ...listOf(whole.anyOf)].filter((part): part is JsonObject => isObject(part))
  if (parts.length > 0 && depth < DEPTH_MAX) {
    const { oneOf: _, anyOf: __, ...base } = whole
    return fc.oneof(...parts.map((part) => valuesOf(model, { allOf: [part, base] }, depth + 1)))
  }
  const types = typesOf(whole)
  if (types.length === 0) return anything
  return fc.oneof(...types.map((type) => ofType(model, whole, type, depth)))
}

function ofType(model: Model, whole: JsonObject, type: string, depth: number): fc.Arbitrary<Json> {
  switch (type) {
    case 'string':
      return fc.oneof(fc.constantFrom(...TEXTS), fc.string({ maxLength: 12 }))
    case 'integer':
      return fc.integer({ min: -20, max: 120 })
    case 'number':
      return fc.oneof(fc.integer({ min: -20, max: 120 }), fc.constantFrom(0.5, 1.25, 99.9))
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array': {
      const items = isObject(whole.items) && depth < DEPTH_MAX ? valuesOf(model, whole.items, depth + 1) : anything
      return fc.array(items, { maxLength: 3 })
    }
    default:
      return ofObject(model, whole, depth)
  }
}

function ofObject(model: Model, whole: JsonObject, depth: number): fc.Arbitrary<Json> {
  const properties = isObject(whole.properties) ? whole.properties : {}
  const members = Object.fromEntries(
    Object.entries(properties).map(([name, part]) => {
      const inner: fc.Arbitrary<Json> =
        isObject(part) && depth < DEPTH_MAX ? valuesOf(model, part, depth + 1) : anything
      return [name, inner]
    }),
  )
  const required = listOf(whole.required).filter(
    (name): name is string => typeof name === 'string' && Object.hasOwn(members, name),
  )
  const names = Object.keys(members)
  const some = fc.subarray(names, { maxLength: Math.min(MEMBERS_MAX, names.length) })
  const record = (kept: readonly string[]) =>
    fc.record(Object.fromEntries(Object.entries(members).filter(([name]) => kept.includes(name))))
  const complete = some.chain((chosen) => record([...chosen, ...required]))
  const loose = some.chain(record)
  const more = fc.tuple(loose, anything).map(([inner, surplus]): Json => ({ ...inner, surplus }))
  return fc.oneof({ weight: 7, arbitrary: complete }, { weight: 2, arbitrary: loose }, { weight: 1, arbitrary: more })
}
