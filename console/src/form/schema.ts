// What a schema says about a value: the value to begin with, its findings, what to send.
import type { Finding } from '../api/errors'
import type { Json, JsonSchema } from './json'

export type { Finding } from '../api/errors'
export type { Json, JsonObject, JsonSchema } from './json'

/** What the form begins with: consts and defaults, and nothing else. */
export function initialValue(_schema: JsonSchema): Json {
  return {}
}

/** What this browser finds wrong, in words. Advice only: the server is the judge. */
export function validate(_schema: JsonSchema, _value: Json): Finding[] {
  return []
}

/** The value to send: without what the person left empty. */
export function prune(value: Json): Json {
  return value
}
