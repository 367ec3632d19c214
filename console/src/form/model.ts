// A schema made ready for questions: where a reference leads, and whether a value fits a part of it.
import { dereference, validate as judge, type Schema } from '@cfworker/json-schema'
import { at, isList, isObject, type Json, type JsonObject, type JsonSchema, typeOf } from './json'
import { isTame } from './pattern'

export interface Model {
  root: JsonSchema
  /** Where `$ref` leads; `undefined` where nowhere. */
  target: (reference: string) => JsonSchema | undefined
  /** Whether the value fits this part of the schema; `undefined` where this browser cannot tell. */
  fits: (value: Json, part: JsonSchema) => boolean | undefined
  /** Everything wrong, as the validator tells it. */
  judged: (value: Json) => readonly Judged[]
}

export interface Judged {
  keyword: string
  keywordLocation: string
  instanceLocation: string
  error: string
}

const models = new WeakMap<object, Model>()

export function modelOf(schema: JsonSchema): Model {
  if (typeof schema === 'boolean') return made(schema)
  const known = models.get(schema)
  if (known) return known
  const model = made(schema)
  models.set(schema, model)
  return model
}

function made(schema: JsonSchema): Model {
  const root = cleaned(schema) as JsonSchema
  let lookup: Record<string, Schema | boolean> | undefined
  try {
    lookup = dereference(root as Schema)
  } catch {
    // A reference that cannot be read: the form still shows what it can.
  }
  // The validator throws on what it does not know; what it cannot judge is the server's.
  const attempt = <Answer>(ask: () => Answer): Answer | undefined => {
    try {
      return ask()
    } catch {
      return undefined
    }
  }
  return {
    root,
    target: (reference) => target(root, reference),
    fits: (value, part) =>
      attempt(() => judge(value, part as Schema, '2020-12', lookup ?? dereference(part as Schema)).valid),
    judged: (value) => attempt(() => judge(value, root as Schema, '2020-12', lookup ?? {}, false).errors) ?? [],
  }
}

const DATA = new Set(['enum', 'const', 'default', 'examples'])

/** A copy without the document's own name, as the server reads it, and without patterns that this browser must not try. */
function cleaned(part: Json, isRoot = true): Json {
  if (isList(part)) return part.map((item) => cleaned(item, false))
  if (!isObject(part)) return part
  const kept = Object.entries(part).filter(
    ([name, value]) =>
      !(isRoot && (name === '$id' || name === '$schema')) &&
      !(name === 'pattern' && typeof value === 'string' && !isTame(value)) &&
      // `nullable` and the like of other dialects mean nothing here.
      !(name === '$ref' && typeof value !== 'string'),
  )
  return Object.fromEntries(
    kept.map(([name, value]) => {
      if (DATA.has(name)) return [name, value]
      if (name === 'patternProperties' && isObject(value)) {
        const tame = Object.entries(value).filter(([pattern]) => isTame(pattern))
        return [name, Object.fromEntries(tame.map(([pattern, inner]) => [pattern, cleaned(inner, false)]))]
      }
      return [name, cleaned(value, false)]
    }),
  )
}

function target(root: JsonSchema, reference: string): JsonSchema | undefined {
  if (reference === '#') return root
  if (!reference.startsWith('#')) return undefined
  let fragment: string
  try {
    fragment = decodeURIComponent(reference.slice(1))
  } catch {
    return undefined
  }
  const found = fragment.startsWith('/') ? at(root, fragment) : anchored(root, fragment)
  return isObject(found) || typeof found === 'boolean' ? found : undefined
}

function anchored(part: Json, name: string): JsonObject | undefined {
  if (isList(part)) return part.map((item) => anchored(item, name)).find((found) => found !== undefined)
  if (!isObject(part)) return undefined
  if (part.$anchor === name || part.$dynamicAnchor === name) return part
  for (const [keyword, inner] of Object.entries(part)) {
    const found = DATA.has(keyword) ? undefined : anchored(inner, name)
    if (found) return found
  }
  return undefined
}

const REFERENCES_MAX = 32

/** The schema as one: references followed, `allOf` joined, and what the value's conditions add. */
export function effective(model: Model, schema: JsonSchema | undefined, value: Json | undefined): JsonObject {
  return joined(model, schema ?? true, value, 0)
}

function joined(model: Model, schema: JsonSchema, value: Json | undefined, depth: number): JsonObject {
  if (typeof schema === 'boolean' || !isObject(schema)) return schema === false ? { not: {} } : {}
  if (depth > REFERENCES_MAX) return {}
  const {
    $ref,
    $dynamicRef,
    allOf,
    if: condition,
    then,
    else: otherwise,
    dependentSchemas,
    dependencies,
    ...own
  } = schema
  let whole: JsonObject = own
  const add = (part: Json | undefined) => {
    if (isObject(part) || typeof part === 'boolean') whole = merged(whole, joined(model, part, value, depth + 1))
  }
  for (const reference of [$ref, $dynamicRef]) {
    if (typeof reference === 'string') add(model.target(reference))
  }
  if (isList(allOf)) for (const part of allOf) add(part)
  const present = value ?? (isObject(whole.properties) ? {} : undefined)
  if (present === undefined) return whole
  if (condition !== undefined && (isObject(condition) || typeof condition === 'boolean')) {
    const holds = model.fits(present, condition)
    if (holds !== undefined) add(holds ? then : otherwise)
  }
  if (isObject(present)) {
    for (const [name, part] of Object.entries({ ...objectOf(dependencies), ...objectOf(dependentSchemas) })) {
      if (Object.hasOwn(present, name)) add(isList(part) ? { required: part } : part)
    }
    for (const [name, names] of Object.entries(objectOf(whole.dependentRequired))) {
      if (Object.hasOwn(present, name)) add({ required: names })
    }
    // Alternatives that are conditions only: those that hold add their fields.
    for (const part of listOf(whole.anyOf)) if (isObject(part) && isCondition(part)) add(part)
  }
  return whole
}

const objectOf = (value: Json | undefined): JsonObject => (isObject(value) ? value : {})
export const listOf = (value: Json | undefined): readonly Json[] => (isList(value) ? value : [])

/** Says nothing about a form by itself. */
export function isCondition(part: JsonObject): boolean {
  return Object.keys(part).every((keyword) => ['if', 'then', 'else', 'not', '$comment'].includes(keyword))
}

const LOWEST = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'])
const HIGHEST = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'])

/** Both at once. Where both say the same kind of thing in words, the first is closer to the field and wins. */
export function merged(first: JsonObject, second: JsonObject): JsonObject {
  const whole: Record<string, Json> = { ...first }
  for (const [keyword, added] of Object.entries(second)) {
    const had = Object.hasOwn(whole, keyword) ? whole[keyword] : undefined
    whole[keyword] = had === undefined ? added : both(keyword, had, added)
  }
  return whole
}

function both(keyword: string, had: Json, added: Json): Json {
  if (keyword === 'properties' || keyword === 'patternProperties' || keyword === '$defs' || keyword === 'definitions') {
    const members: Record<string, Json> = { ...objectOf(had) }
    for (const [name, part] of Object.entries(objectOf(added))) {
      const before = Object.hasOwn(members, name) ? members[name] : undefined
      members[name] = before === undefined ? part : { allOf: [before, part] }
    }
    return members
  }
  if (keyword === 'required') return [...new Set([...listOf(had), ...listOf(added)])]
  if (keyword === 'type') return commonTypes(had, added)
  if (keyword === 'enum') {
    const kept = listOf(had).filter((option) =>
      listOf(added).some((other) => JSON.stringify(other) === JSON.stringify(option)),
    )
    return kept
  }
  if (keyword === 'dependentRequired') return { ...objectOf(had), ...objectOf(added) }
  if (keyword === 'items' || keyword === 'additionalProperties') {
    if (had === true) return added
    return isObject(had) && isObject(added) ? { allOf: [had, added] } : had
  }
  if (typeof had === 'number' && typeof added === 'number') {
    if (LOWEST.has(keyword)) return Math.min(had, added)
    if (HIGHEST.has(keyword)) return Math.max(had, added)
  }
  return had
}

function commonTypes(had: Json, added: Json): Json {
  const left = typesIn(had)
  const right = typesIn(added)
  const common = left.filter((type) => right.includes(type) || (type === 'integer' && right.includes('number')))
  if (left.includes('number') && right.includes('integer') && !left.includes('integer')) common.push('integer')
  return common.length === 1 ? (common[0] ?? had) : common.length === 0 ? had : common
}

function typesIn(type: Json): string[] {
  return (isList(type) ? type : [type]).filter((name) => typeof name === 'string')
}

/** The types that the schema allows, said or implied; none: any. */
export function typesOf(schema: JsonObject): string[] {
  if (schema.type !== undefined) return typesIn(schema.type)
  if (schema.const !== undefined) return [typeOf(schema.const)]
  if (
    ['properties', 'additionalProperties', 'patternProperties', 'required', 'propertyNames'].some((k) => k in schema)
  ) {
    return ['object']
  }
  if (['items', 'prefixItems', 'contains', 'minItems', 'maxItems', 'uniqueItems'].some((k) => k in schema))
    return ['array']
  if (['minLength', 'maxLength', 'pattern', 'format', 'contentEncoding', 'contentMediaType'].some((k) => k in schema)) {
    return ['string']
  }
  if (['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'].some((k) => k in schema))
    return ['number']
  return []
}

export function isOfType(value: Json, type: string): boolean {
  if (type === 'integer') return typeof value === 'number' && Number.isInteger(value)
  return typeOf(value) === type
}
