// A call as a line for the terminal: by curl and by the command line.
import { isObject, type Json } from '../../form/json'

/** As one word of a POSIX shell. */
export function quoted(text: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

export function curlLine(origin: string, tool: string, input: Json): string {
  const body = JSON.stringify({ tool, input })
  return [
    `curl ${quoted(`${origin}/api/v1/calls`)} \\`,
    `  -H "Authorization: Bearer $TOOLGATE_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${quoted(body)}`,
  ].join('\n')
}

export function commandLine(tool: string, input: Json): string {
  if (!isObject(input)) return `toolgate call ${quoted(tool)}`
  const members = Object.entries(input)
  const plain = members.every(([name, value]) => /^[A-Za-z_][A-Za-z0-9_-]*$/.test(name) && isPlain(value))
  if (!plain) return `toolgate call ${quoted(tool)} --input ${quoted(JSON.stringify(input))}`
  const fields = members.map(([name, value]) => quoted(`${name}=${String(value)}`))
  return ['toolgate call', quoted(tool), ...fields].join(' ')
}

// A text that begins with `@` would be taken for a file.
function isPlain(value: Json): boolean {
  return typeof value === 'string' ? !value.startsWith('@') : typeof value === 'number' || typeof value === 'boolean'
}
