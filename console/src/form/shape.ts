// What kind of field a schema asks for, which fields an object has, which alternatives a union.
import { child, isList, isObject, type Json, type JsonObject, type JsonSchema, member, same, typeOf } from './json'
import { effective, isCondition, isOfType, listOf, type Model, merged, typesOf } from './model'
import { humanised, typeTitle, valueWords } from './words'

export type Kind =
  | 'const'
  | 'choice'
  | 'choices'
  | 'boolean'
  | 'number'
  | 'text'
  | 'long'
  | 'secret'
  | 'date'
  | 'date-time'
  | 'time'
  | 'file'
  | 'object'
  | 'list'
  | 'union'
  | 'null'
  | 'any'

export interface Choice {
  value: Json
  label: string
  description?: string
}

export interface Alternative {
  title: string
  description?: string
  /** The alternative with what stands beside the union. */
  schema: JsonSchema
  /** The alternative alone, as it stands in the schema. */
  part: JsonSchema
}

export interface Shape {
  kind: Kind
  /** Joined, for the value that is there. */
  schema: JsonObject
  /** `null` is allowed besides. */
  nullable: boolean
  choices: readonly Choice[]
  alternatives: readonly Alternative[]
}

const text = (value: Json | undefined): string | undefined =>
  typeof value === 'string' && value.trim() !== '' ? value : undefined

export function shapeOf(model: Model, given: JsonSchema | undefined, value: Json | undefined): Shape {
  const whole = effective(model, given, value)
  const { schema, nullable } = withoutNull(model, whole)
  const shape = (kind: Kind, more: Partial<Shape> = {}): Shape => ({
    kind,
    schema,
    nullable,
    choices: [],
    alternatives: [],
    ...more,
  })
  if (schema.const !== undefined) return shape('const')
  const choices = choicesOf(model, schema)
  if (choices) return shape('choice', { choices })
  const alternatives = alternativesOf(model, schema)
  if (alternatives.length > 1) return shape('union', { alternatives })
  const only = alternatives[0]
  if (only) return { ...shapeOf(model, only.schema, value), nullable }
  const types = typesOf(schema)
  if (types.length > 1) {
    // A schema for each type, under the type's name.
    const byType = types.map((type) => {
      const part = { ...schema, type, title: typeTitle(type) }
      return { title: typeTitle(type), schema: part, part: { type } }
    })
    return types.length > 5 ? shape('any') : shape('union', { alternatives: byType })
  }
  switch (types[0]) {
    case 'boolean':
      return shape('boolean')
    case 'integer':
    case 'number':
      return shape('number')
    case 'string':
      return shape(textKind(schema, value))
    case 'object':
      return shape('object')
    case 'array': {
      const items = itemChoices(model, schema)
      return items ? shape('choices', { choices: items }) : shape('list')
    }
    case 'null':
      return shape('null')
    default:
      return shape(fieldType(schema) === undefined ? 'any' : textKind(schema, value))
  }
}

/** `x-field.type`, one of the twelve kinds of the product's own field lists. */
export function fieldType(schema: JsonObject): string | undefined {
  return text(member(schema['x-field'], 'type'))
}

const LONG = new Set(['textarea', 'multiline', 'markdown', 'text', 'html', 'code', 'sql', 'json', 'yaml'])
const LONG_NAMES =
  /^(body|text|content|contents|prompt|message|markdown|html|code|sql|script|notes?|comment|description|instructions?)$/i
const LONG_FROM = 200

function textKind(schema: JsonObject, value: Json | undefined): Kind {
  const format = text(schema.format)
  const display = text(member(schema['x-field'], 'display'))
  const field = fieldType(schema)
  if (format === 'date' || format === 'date-time' || format === 'time') return format
  if (field === 'date') return display === 'datetime' ? 'date-time' : 'date'
  if (schema.writeOnly === true || format === 'password') return 'secret'
  const encoded = ['base64', 'base64url'].includes(text(schema.contentEncoding)?.toLowerCase() ?? '')
  if (encoded || ['byte', 'binary', 'data-url', 'data-uri'].includes(format ?? '')) return 'file'
  if (LONG.has(format ?? '') || LONG.has(display ?? '') || schema['x-multiline'] === true) return 'long'
  if (typeof schema.maxLength === 'number' && schema.maxLength > LONG_FROM) return 'long'
  if (text(schema.contentMediaType) !== undefined) return 'long'
  return typeof value === 'string' && value.includes('\n') ? 'long' : 'text'
}

const SHORT_NAMES =
  /(^|[_-])(path|file|filename|name|title|subject|url|uri|link|email|address|host|key|id|query|expression)$/i
const SHORT_MAX = 4_096

/** What is one line by its name, though the schema lets it be long: a path, an address, a formula. */
export function isShortName(name: string, schema: JsonObject, value: Json | undefined): boolean {
  const { maxLength } = schema
  const isOnlyLong = ['format', 'contentMediaType', 'x-multiline', 'x-field'].every((keyword) => !(keyword in schema))
  if (!isOnlyLong || typeof maxLength !== 'number' || maxLength > SHORT_MAX) return false
  return SHORT_NAMES.test(name) && !(typeof value === 'string' && value.includes('\n'))
}

/** Names under which people write more than a line, where the schema says nothing. */
export function isLongName(name: string, schema: JsonObject): boolean {
  return LONG_NAMES.test(name) && ['maxLength', 'format', 'pattern', 'enum'].every((keyword) => !(keyword in schema))
}

/** `["string", "null"]` and `anyOf: [{…}, {type: null}]` are the other type, which may also be null. */
function withoutNull(model: Model, schema: JsonObject): { schema: JsonObject; nullable: boolean } {
  const types = isList(schema.type) ? schema.type : []
  if (types.includes('null') && types.length > 1) {
    const rest = types.filter((type) => type !== 'null')
    const type = rest.length === 1 ? (rest[0] ?? 'null') : rest
    const options = isList(schema.enum) ? { enum: schema.enum.filter((option) => option !== null) } : {}
    return { schema: { ...schema, type, ...options }, nullable: true }
  }
  for (const keyword of ['anyOf', 'oneOf'] as const) {
    const parts = listOf(schema[keyword])
    const rest = parts.filter((part) => !isNull(model, part))
    if (parts.length < 2 || rest.length === parts.length || rest.length === 0) continue
    const { [keyword]: _, ...base } = schema
    const [only] = rest
    if (rest.length > 1 || only === undefined) return { schema: { ...base, [keyword]: rest }, nullable: true }
    return { schema: merged(base, effective(model, isObject(only) ? only : true, undefined)), nullable: true }
  }
  return { schema, nullable: false }
}

function isNull(model: Model, part: Json): boolean {
  if (!isObject(part)) return false
  const whole = effective(model, part, undefined)
  return whole.type === 'null' || whole.const === null
}

const CHOICES_MAX = 2_000

function choicesOf(model: Model, schema: JsonObject): Choice[] | undefined {
  if (isList(schema.enum)) {
    const names = isObject(schema['x-enum-labels']) ? schema['x-enum-labels'] : {}
    const listed = listOf(schema['x-enumNames'] ?? schema.enumNames)
    return schema.enum.slice(0, CHOICES_MAX).map((value, index) => {
      const label = text(member(names, valueWords(value))) ?? text(listed[index])
      return { value, label: label ?? (value === '' ? '(empty text)' : valueWords(value)) }
    })
  }
  const parts = listOf(schema.oneOf ?? schema.anyOf)
  if (parts.length === 0 || parts.length > CHOICES_MAX) return undefined
  const choices: Choice[] = []
  for (const part of parts) {
    const whole = isObject(part) ? effective(model, part, undefined) : {}
    if (whole.const === undefined || isObject(whole.const)) return undefined
    const description = text(whole.description)
    choices.push({
      value: whole.const,
      label: text(whole.title) ?? valueWords(whole.const),
      ...(description === undefined ? {} : { description }),
    })
  }
  return choices
}

const SEVERAL_MAX = 24

/** A list of different options out of few: boxes to tick. */
function itemChoices(model: Model, schema: JsonObject): Choice[] | undefined {
  if (schema.uniqueItems !== true || schema.prefixItems !== undefined || !isObject(schema.items)) return undefined
  const choices = choicesOf(model, effective(model, schema.items, undefined))
  return choices && choices.length <= SEVERAL_MAX ? choices : undefined
}

function alternativesOf(model: Model, schema: JsonObject): Alternative[] {
  for (const keyword of ['oneOf', 'anyOf'] as const) {
    const { [keyword]: given, ...base } = schema
    const parts = listOf(given).filter((part) => isObject(part) || typeof part === 'boolean')
    if (parts.length === 0 || !parts.some((part) => shows(model, part))) continue
    return parts.map((part, index) => {
      const whole = effective(model, part, undefined)
      const description = text(whole.description)
      return {
        title: titleOf(part, whole, index),
        ...(description === undefined ? {} : { description }),
        // The base's own name stays with the union.
        schema: { allOf: [part, withoutWords(base)] },
        part,
      }
    })
  }
  return []
}

function withoutWords({ title: _, description: __, default: ___, ...rest }: JsonObject): JsonObject {
  return rest
}

/** Alternatives that only say `required` or a condition change no field. */
function shows(model: Model, part: JsonSchema): boolean {
  if (!isObject(part) || isCondition(part)) return false
  const whole = effective(model, part, undefined)
  return Object.keys(whole).some(
    (keyword) => !['required', 'not', 'title', 'description', '$comment', 'if', 'then', 'else'].includes(keyword),
  )
}

function titleOf(part: JsonSchema, whole: JsonObject, index: number): string {
  const titled = text(whole.title)
  if (titled) return titled
  const tag = discriminatorsOf(whole)[0]
  if (tag) return humanised(valueWords(tag[1]))
  const reference = isObject(part) ? text(part.$ref) : undefined
  const name = reference?.split('/').at(-1)
  if (name && name !== '#') return humanised(name)
  const [type] = typesOf(whole)
  if (isList(whole.enum)) return whole.enum.slice(0, 3).map(valueWords).join(', ')
  if (type === 'object') {
    const names = Object.keys(isObject(whole.properties) ? whole.properties : {})
    if (names.length > 0) return names.slice(0, 3).map(humanised).join(', ')
  }
  return type ? typeTitle(type) : `Alternative ${index + 1}`
}

/** Members that can have one value only: they tell one alternative from another. */
export function discriminatorsOf(schema: JsonObject): [name: string, value: Json][] {
  const found: [string, Json][] = []
  for (const [name, part] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
    if (!isObject(part)) continue
    if (part.const !== undefined) found.push([name, part.const])
    else if (isList(part.enum) && part.enum.length === 1 && part.enum[0] !== undefined) found.push([name, part.enum[0]])
  }
  return found
}

/** Which alternative the value is of: by its discriminator, else by fitting, else by what it has in common. */
export function chosenOf(model: Model, alternatives: readonly Alternative[], value: Json | undefined): number {
  if (value === undefined) return -1
  let best = -1
  let points = 0
  for (const [index, { part, schema }] of alternatives.entries()) {
    const scored = likeness(model, part, schema, value)
    if (scored > points) [best, points] = [index, scored]
  }
  return best
}

export function likeness(model: Model, part: JsonSchema, schema: JsonSchema, value: Json): number {
  const whole = effective(model, schema, value)
  const types = typesOf(whole)
  if (types.length > 0 && !types.some((type) => isOfType(value, type))) return 0
  const tags = discriminatorsOf(whole)
  if (tags.some(([name, tag]) => !same(member(value, name), tag) && member(value, name) !== undefined)) return 0
  if (whole.const !== undefined && !same(whole.const, value)) return 0
  let points = 1
  if (tags.length > 0 && tags.every(([name, tag]) => same(member(value, name), tag))) points += 1_000
  if (model.fits(value, part) === true) points += 100
  if (isObject(value) && isObject(whole.properties)) {
    const { properties } = whole
    points += Object.keys(value).filter((name) => Object.hasOwn(properties, name)).length
  }
  return points
}

export interface Field {
  name: string
  pointer: string
  label: string
  schema: JsonSchema
  required: boolean
  /** Folded away until asked for. */
  advanced: boolean
}

/** Optional fields beyond this many are folded away with the advanced ones. */
export const SHOWN_MAX = 8

/** The fields of an object, for the value it has now. */
export function fieldsOf(model: Model, given: JsonSchema, value: Json | undefined, pointer = ''): Field[] {
  const schema = effective(model, given, value)
  const properties = isObject(schema.properties) ? schema.properties : {}
  const required = new Set(listOf(schema.required))
  const asked = listOf(schema['x-order'])
  const names = [...Object.keys(properties)].sort((left, right) => place(asked, left) - place(asked, right))
  const fields: Field[] = []
  for (const name of names) {
    const part = properties[name]
    if (part === false || !(isObject(part) || part === true)) continue
    const whole = effective(model, part, undefined)
    if (whole.readOnly === true && member(value, name) === undefined) continue
    const isAbsent = !required.has(name) && member(value, name) === undefined
    if (isAbsent && !isVisible(model, whole, schema, value)) continue
    fields.push({
      name,
      pointer: child(pointer, name),
      label: text(whole.title) ?? humanised(name),
      schema: part,
      required: required.has(name),
      advanced: !required.has(name) && isAdvanced(whole),
    })
  }
  // Required without being described: a field of its own, of any kind.
  for (const name of required) {
    if (typeof name !== 'string' || Object.hasOwn(properties, name)) continue
    const part = patternPart(model, schema, name) ?? true
    fields.push({
      name,
      pointer: child(pointer, name),
      label: humanised(name),
      schema: part,
      required: true,
      advanced: false,
    })
  }
  return pointer === '' ? foldedBeyond(fields) : fields
}

/**
 * `x-field.visible_if`: what other members of the object must be for this one to be asked for, as in `{"channel":
 * ["email", "letter"], "urgent": true}`; `true` for a member that is no yes or no means that it is filled in. A value
 * that is there is never hidden: nothing is sent that is not seen.
 */
function isVisible(model: Model, schema: JsonObject, around: JsonObject, value: Json | undefined): boolean {
  const wanted = member(schema['x-field'], 'visible_if')
  if (!isObject(wanted)) return true
  const properties = isObject(around.properties) ? around.properties : {}
  return Object.entries(wanted).every(([name, options]) => {
    const part = Object.hasOwn(properties, name) ? properties[name] : undefined
    const whole = effective(model, isObject(part) ? part : true, undefined)
    // What is not filled in is what the server would take it for.
    const found = member(value, name) ?? whole.default
    if (options === true && !typesOf(whole).includes('boolean')) return found !== undefined && found !== ''
    return (isList(options) ? options : [options]).some((option) => same(option, found ?? null))
  })
}

function place(order: readonly Json[], name: string): number {
  const index = order.indexOf(name)
  return index === -1 ? order.length : index
}

function isAdvanced(schema: JsonObject): boolean {
  return schema['x-advanced'] === true || member(schema['x-field'], 'advanced') === true || schema.deprecated === true
}

function foldedBeyond(fields: readonly Field[]): Field[] {
  const plain = fields.filter((field) => !field.advanced)
  const room = Math.max(SHOWN_MAX - plain.filter((field) => field.required).length, 2)
  // One field more than fits is shown: a fold for it would take as much room.
  if (plain.filter((field) => !field.required).length <= room + 1) return [...fields]
  let left = room
  return fields.map((field) => {
    if (field.required || field.advanced) return field
    left -= 1
    return left >= 0 ? field : { ...field, advanced: true }
  })
}

/** The schema of a member that is not among the properties; `undefined` where there may be none. */
export function patternPart(model: Model, schema: JsonObject, name: string): JsonSchema | undefined {
  for (const [pattern, part] of Object.entries(isObject(schema.patternProperties) ? schema.patternProperties : {})) {
    if (model.fits(name, { pattern }) === true && (isObject(part) || typeof part === 'boolean')) return part
  }
  const rest = schema.additionalProperties ?? schema.unevaluatedProperties
  if (rest === false) return undefined
  return isObject(rest) ? rest : true
}

/** Whether a person may add members with names of their own. */
export function isOpen(schema: JsonObject): boolean {
  if (isObject(schema.patternProperties) && Object.keys(schema.patternProperties).length > 0) return true
  const rest = schema.additionalProperties
  if (isObject(rest) || rest === true) return true
  return rest === undefined && !isObject(schema.properties)
}

const BLANK_DEPTH_MAX = 8

/** What a field begins with: consts and defaults, and objects that must be there; `undefined` where nothing is said. */
export function initialOf(model: Model, given: JsonSchema | undefined, required: boolean, depth = 0): Json | undefined {
  const whole = effective(model, given, undefined)
  if (whole.default !== undefined) return whole.default
  if (whole.const !== undefined && required) return whole.const
  if (!required || depth > BLANK_DEPTH_MAX) return undefined
  const shape = shapeOf(model, given, undefined)
  if (shape.kind === 'object') return objectInitial(model, given ?? true, depth)
  if (shape.kind === 'list' && !shape.nullable) return []
  return undefined
}

export function objectInitial(model: Model, given: JsonSchema, depth = 0): JsonObject {
  let value: JsonObject = {}
  for (const field of fieldsOf(model, given, {})) {
    const initial = initialOf(model, field.schema, field.required, depth + 1)
    if (initial !== undefined) value = { ...value, [field.name]: initial }
  }
  return value
}

/** A value to show where one must stand: a new item of a list, an alternative just chosen. */
export function blankOf(model: Model, given: JsonSchema | undefined, depth = 0): Json {
  const initial = initialOf(model, given, true, depth)
  if (initial !== undefined) return initial
  const shape = shapeOf(model, given, undefined)
  if (shape.nullable) return null
  switch (shape.kind) {
    case 'text':
    case 'long':
    case 'secret':
      return ''
    case 'choice':
      return shape.choices.length === 1 ? (shape.choices[0]?.value ?? null) : null
    case 'choices':
    case 'list':
      return []
    case 'object':
      return {}
    case 'union':
      return depth > BLANK_DEPTH_MAX ? null : blankOf(model, shape.alternatives[0]?.schema, depth + 1)
    default:
      return null
  }
}

/** Fits the kind of field, so that the field can show it. */
export function isShowable(shape: Shape, value: Json | undefined): boolean {
  if (value === undefined || value === null) return true
  const type = typeOf(value)
  switch (shape.kind) {
    case 'object':
      return type === 'object'
    case 'list':
      return type === 'array'
    case 'choices':
      return isList(value) && value.every((item) => shape.choices.some((choice) => same(choice.value, item)))
    case 'boolean':
      return type === 'boolean'
    case 'number':
      // What was typed and is no number yet.
      return type === 'number' || type === 'string'
    case 'text':
    case 'long':
    case 'secret':
    case 'file':
    case 'date':
    case 'date-time':
    case 'time':
      return type === 'string'
    default:
      return true
  }
}
