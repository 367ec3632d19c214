// A schema as a table for people.

import type { JsonSchema } from '../../form/json'
import { revealed } from '../../lib/hidden'
import { Prose } from '../../ui/Prose'
import { fieldRows } from './fields'
import css from './ToolPage.module.css'

const INDENT_PX = 12

export function SchemaTable({ schema, label }: { schema: JsonSchema | undefined; label: string }) {
  const rows = fieldRows(schema)
  if (rows.length === 0) return <p className={css.quiet}>No fields are declared.</p>
  return (
    <div className={css.scroll}>
      <table className={css.schema} aria-label={label}>
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Type</th>
            <th scope="col">What it is</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.path}>
              <th scope="row" style={{ paddingLeft: row.depth * INDENT_PX }}>
                <code>{revealed(row.path)}</code>
                {row.required && <span className={css.must}>required</span>}
              </th>
              <td>
                <code>{row.type}</code>
              </td>
              <td>
                {row.description && <Prose text={row.description} />}
                {(row.rules.length > 0 || row.default) && (
                  <span className={css.rules}>
                    {row.rules.map((rule) => (
                      <span key={rule}>{revealed(rule)}</span>
                    ))}
                    {row.default && (
                      <span>
                        default <code>{revealed(row.default)}</code>
                      </span>
                    )}
                  </span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
