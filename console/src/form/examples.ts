// The example schemas of `@jsonforms/examples`, as a tool would carry them. For tests only.
import { getExamples } from '@jsonforms/examples'
import { isObject, type Json, type JsonObject, type JsonSchema } from './json'

export interface Example {
  name: string
  schema: JsonObject
  data: Json | undefined
}

/** Every example that brings a schema, each name once. */
export function examples(): Example[] {
  const named = new Map<string, Example>()
  for (const { name, schema, data } of getExamples()) {
    // As JSON: some carry functions for another library.
    const plain = schema === undefined ? undefined : (JSON.parse(JSON.stringify(schema)) as JsonSchema)
    if (!isObject(plain)) continue
    const value = data === undefined ? undefined : (JSON.parse(JSON.stringify(data)) as Json)
    named.set(name, { name, schema: plain, data: value })
  }
  return [...named.values()]
}
