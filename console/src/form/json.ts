// JSON as a type, and places in it as JSON pointers (RFC 6901).
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }
export type JsonObject = { readonly [name: string]: Json }

/** A JSON Schema 2020-12 as it came: nothing in it is certain. */
export type JsonSchema = boolean | JsonObject

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isList(value: unknown): value is readonly Json[] {
  return Array.isArray(value)
}

/** A member of its own; what every object inherits is none. */
export function member(value: Json | undefined, name: string): Json | undefined {
  if (isObject(value)) return Object.hasOwn(value, name) ? value[name] : undefined
  return isList(value) && /^(0|[1-9]\d*)$/.test(name) ? value[Number(name)] : undefined
}

export function child(pointer: string, name: string | number): string {
  return `${pointer}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`
}

export function steps(pointer: string): string[] {
  if (pointer === '') return []
  return pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

export function at(value: Json | undefined, pointer: string): Json | undefined {
  return steps(pointer).reduce(member, value)
}

/** The object with one member set, or without it; the others, and their order, stay. */
export function withMember(value: Json | undefined, name: string, next: Json | undefined): JsonObject {
  const before = isObject(value) ? value : {}
  if (next !== undefined) return Object.fromEntries([...Object.entries(before), [name, next]])
  return Object.fromEntries(Object.entries(before).filter(([other]) => other !== name))
}

/** The pointer lies at the place or below it. */
export function within(pointer: string, place: string): boolean {
  return pointer === place || pointer.startsWith(`${place}/`)
}

export function same(left: Json | undefined, right: Json | undefined): boolean {
  if (left === right) return true
  if (isList(left) && isList(right)) {
    return left.length === right.length && left.every((item, index) => same(item, right[index]))
  }
  if (!isObject(left) || !isObject(right)) return false
  const names = Object.keys(left)
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => Object.hasOwn(right, name) && same(left[name], right[name]))
  )
}

export type JsonType = 'null' | 'boolean' | 'number' | 'string' | 'array' | 'object'

export function typeOf(value: Json): JsonType {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value as 'boolean' | 'number' | 'string' | 'object'
}
