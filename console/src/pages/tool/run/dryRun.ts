// A tool that takes `dry_run` as a member of its input stands on a page that has a button for dry runs: one of both is
// enough, and the button is the one that asks nobody.
import { isObject, type Json, type JsonSchema } from '../../../form/json'

/** The schema without that member, where it may be left out. */
export function withoutDryRun(schema: JsonSchema): JsonSchema {
  if (!isObject(schema) || !isObject(schema.properties) || !isFlag(schema.properties.dry_run)) return schema
  if (Array.isArray(schema.required) && schema.required.includes('dry_run')) return schema
  const { dry_run: _, ...properties } = schema.properties
  return { ...schema, properties }
}

/** What the form begins with, without what it does not show. */
export function withoutDryRunValue(schema: JsonSchema, value: Json): Json {
  if (withoutDryRun(schema) === schema || !isObject(value)) return value
  const { dry_run: _, ...rest } = value
  return rest
}

function isFlag(schema: Json | undefined): boolean {
  return isObject(schema) && schema.type === 'boolean'
}
