// What the browser says about the examples, for the test that asks a real server about the same (tests/browser/form.test.mjs).
import fc from 'fast-check'
import { valuesOf } from './arbitrary'
import { examples } from './examples'
import { isList, isObject, type Json, type JsonObject, type JsonSchema } from './json'
import { modelOf } from './model'

export { validate } from './findings'

/** The examples as the input schemas of tools: an object at the top, no dialect that nobody knows. */
export function toolSchemas(): { name: string; schema: JsonObject; data: Json | undefined }[] {
  return examples().map(({ name, schema, data }) => {
    const { $schema, $id: _, ...rest } = schema
    const dialect = typeof $schema === 'string' && $schema.includes('draft-07') ? { $schema } : {}
    if (rest.type === 'object') return { name, schema: { ...dialect, ...rest }, data }
    const wrapped = { ...dialect, type: 'object', required: ['value'], properties: { value: moved(rest) } }
    return { name, schema: wrapped, data: data === undefined ? undefined : { value: data } }
  })
}

/** References lead to where the schema stands now. */
function moved(part: Json): Json {
  if (isList(part)) return part.map(moved)
  if (!isObject(part)) return part
  return Object.fromEntries(
    Object.entries(part).map(([name, inner]) => [
      name,
      name === '$ref' && typeof inner === 'string' ? inner.replace(/^#/, '#/properties/value') : moved(inner),
    ]),
  )
}

/** Objects only: a call's input is one. */
export function values(schema: JsonSchema, count: number, seed: number): Json[] {
  const model = modelOf(schema)
  return fc.sample(valuesOf(model, model.root).filter(isObject), { numRuns: count, seed })
}
