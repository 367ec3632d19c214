// A form made from a JSON Schema.
import type { Finding } from '../api/errors'
import type { Json, JsonSchema } from './json'

export interface SchemaFormProps {
  schema: JsonSchema
  value: Json
  onChange: (value: Json) => void
  /** What the server, or `validate`, found wrong: JSON pointers into the value. */
  findings: readonly Finding[]
  disabled?: boolean
  /** Before every element's id, so that two forms fit on a page. */
  id?: string
}

export function SchemaForm({ value }: SchemaFormProps) {
  return <pre>{JSON.stringify(value, null, 2)}</pre>
}
