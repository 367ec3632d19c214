// A schema as rows that can be read: each field with its type, what it must keep to, and what it is for.
import { isObject, type Json, type JsonObject, type JsonSchema } from '../../form/json'

export interface FieldRow {
  /** `place.city`, `tags[]` */
  path: string
  depth: number
  type: string
  required: boolean
  description: string
  /** `at least 1`, `one of low, high` */
  rules: readonly string[]
  default: string
}

const DEPTH_MAX = 6
const ROWS_MAX = 500

export function fieldRows(schema: JsonSchema | undefined): FieldRow[] {
  const rows: FieldRow[] = []
  if (isObject(schema)) members(schema, schema, '', 0, rows)
  return rows
}

function members(schema: JsonObject, root: JsonObject, path: string, depth: number, rows: FieldRow[]) {
  if (depth > DEPTH_MAX || !isObject(schema.properties)) return
  const required = Array.isArray(schema.required) ? schema.required : []
  for (const [name, member] of Object.entries(schema.properties)) {
    if (rows.length >= ROWS_MAX) return
    const at = path === '' ? name : `${path}.${name}`
    field(resolved(member, root), root, at, depth, required.includes(name), rows)
  }
}

function field(schema: JsonObject, root: JsonObject, path: string, depth: number, required: boolean, rows: FieldRow[]) {
  rows.push({
    path,
    depth,
    type: typeWords(schema, root),
    required,
    description: typeof schema.description === 'string' ? schema.description : '',
    rules: rulesOf(schema),
    default: schema.default === undefined ? '' : JSON.stringify(schema.default),
  })
  members(schema, root, path, depth + 1, rows)
  const items = resolved(schema.items, root)
  members(items, root, `${path}[]`, depth + 1, rows)
}

/** References inside of the schema only: a definition is complete in itself. */
function resolved(schema: Json | undefined, root: JsonObject, hops = 0): JsonObject {
  if (!isObject(schema)) return {}
  const { $ref, ...beside } = schema
  if (typeof $ref !== 'string' || !$ref.startsWith('#/') || hops > DEPTH_MAX) return schema
  const steps = $ref.slice(2).split('/')
  const target = steps.reduce<Json | undefined>((value, step) => {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  }, root)
  return { ...resolved(target, root, hops + 1), ...beside }
}

export function typeWords(schema: JsonObject, root: JsonObject = schema): string {
  const types = Array.isArray(schema.type) ? schema.type : schema.type === undefined ? [] : [schema.type]
  const words = types.map((type) => {
    if (type !== 'array') return String(type)
    const items = resolved(schema.items, root)
    return isObject(schema.items) ? `array of ${typeWords(items, root)}` : 'array'
  })
  if (words.length > 0) return words.join(' or ')
  for (const union of ['oneOf', 'anyOf'] as const) {
    const choices = schema[union]
    if (Array.isArray(choices)) {
      return [...new Set(choices.map((choice) => typeWords(resolved(choice, root), root)))].join(' or ')
    }
  }
  return schema.enum !== undefined || schema.const !== undefined
    ? 'value'
    : isObject(schema.properties)
      ? 'object'
      : 'any'
}

const BOUNDS: readonly (readonly [keyword: string, words: (bound: string) => string])[] = [
  ['minimum', (bound) => `at least ${bound}`],
  ['exclusiveMinimum', (bound) => `more than ${bound}`],
  ['maximum', (bound) => `at most ${bound}`],
  ['exclusiveMaximum', (bound) => `less than ${bound}`],
  ['multipleOf', (bound) => `a multiple of ${bound}`],
  ['minLength', (bound) => `at least ${bound} characters`],
  ['maxLength', (bound) => `at most ${bound} characters`],
  ['minItems', (bound) => `at least ${bound} items`],
  ['maxItems', (bound) => `at most ${bound} items`],
]

function rulesOf(schema: JsonObject): string[] {
  const rules: string[] = []
  if (Array.isArray(schema.enum)) rules.push(`one of ${schema.enum.map(said).join(', ')}`)
  if (schema.const !== undefined) rules.push(`always ${said(schema.const)}`)
  if (typeof schema.format === 'string') rules.push(`format ${schema.format}`)
  if (typeof schema.pattern === 'string') rules.push(`pattern ${schema.pattern}`)
  for (const [keyword, words] of BOUNDS) {
    const bound = schema[keyword]
    if (typeof bound === 'number') rules.push(words(bound.toLocaleString('en')))
  }
  if (schema.uniqueItems === true) rules.push('no item twice')
  return rules
}

function said(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
