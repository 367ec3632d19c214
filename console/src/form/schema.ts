// What a schema says about a value: the value to begin with, its fields, its findings, what to send.
import { isList, isObject, type Json, type JsonSchema } from './json'
import { effective, listOf, modelOf } from './model'
import { type Field, fieldsOf as fieldsFor, initialOf, patternPart, shapeOf } from './shape'

export type { Finding } from '../api/errors'
export { serverFindings, validate } from './findings'
export type { Json, JsonObject, JsonSchema } from './json'
export type { Field } from './shape'

/** What the form begins with: defaults, fixed values and the objects that must be there, and nothing else. */
export function initialValue(schema: JsonSchema): Json {
  const model = modelOf(schema)
  return initialOf(model, model.root, true) ?? {}
}

/** The fields of the top level for the value it has now. */
export function fieldsOf(schema: JsonSchema, value: Json): Field[] {
  const model = modelOf(schema)
  return fieldsFor(model, model.root, value)
}

/** The value to send: without items that were added and left empty. Members left empty were never there. */
export function prune(value: Json, schema: JsonSchema = true): Json {
  const model = modelOf(schema)
  const pruned = (part: JsonSchema | undefined, inner: Json): Json => {
    const whole = effective(model, part, inner)
    if (isList(inner)) {
      const partOf = (index: number) => {
        const listed = listOf(whole.prefixItems)[index] ?? whole.items
        return isObject(listed) || typeof listed === 'boolean' ? listed : undefined
      }
      const isLeftEmpty = (item: Json, index: number) => {
        if (item !== null || index < listOf(whole.prefixItems).length) return false
        const shape = shapeOf(model, partOf(index), undefined)
        return (
          !shape.nullable &&
          shape.kind !== 'any' &&
          shape.kind !== 'null' &&
          shape.kind !== 'union' &&
          !shape.choices.some((choice) => choice.value === null)
        )
      }
      return inner.filter((item, index) => !isLeftEmpty(item, index)).map((item, index) => pruned(partOf(index), item))
    }
    if (!isObject(inner)) return inner
    const properties = isObject(whole.properties) ? whole.properties : {}
    return Object.fromEntries(
      Object.entries(inner).map(([name, member]) => {
        const own = Object.hasOwn(properties, name) ? properties[name] : undefined
        const part = isObject(own) || typeof own === 'boolean' ? own : patternPart(model, whole, name)
        return [name, pruned(part, member)]
      }),
    )
  }
  return pruned(model.root, value)
}
