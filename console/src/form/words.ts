// Names, types and sizes as people say them.
import { isObject, type Json, typeOf } from './json'

const UPPER = new Set([
  'id',
  'url',
  'uri',
  'api',
  'ip',
  'sku',
  'iban',
  'html',
  'json',
  'sql',
  'csv',
  'pdf',
  'http',
  'vat',
])

/** `due_date`, `dueDate` and `due-date` become `Due date`. */
export function humanised(name: string): string {
  const words = name
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .replace(/(\p{Lu}+)(\p{Lu}\p{Ll})/gu, '$1 $2')
    .split(/[\s_-]+/)
    .filter((word) => word !== '')
    .map((word) => (UPPER.has(word.toLowerCase()) ? word.toUpperCase() : lowered(word)))
  const joined = words.join(' ')
  return joined === '' ? name : joined.charAt(0).toUpperCase() + joined.slice(1)
}

/** `Quarter` begins a name as `quarter` does; `XYZ` means itself. */
function lowered(word: string): string {
  return /^\p{Lu}+$/u.test(word) && word.length > 1 ? word : word.charAt(0).toLowerCase() + word.slice(1)
}

const TYPES: Record<string, string> = {
  string: 'text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'yes or no',
  array: 'a list',
  object: 'an object',
  null: 'nothing (null)',
}

export function typeWords(type: string): string {
  return TYPES[type] ?? type
}

/** A type as the name of a choice. */
export function typeTitle(type: string): string {
  const words = typeWords(type).replace(/^an? /, '')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

export function valueWords(value: Json): string {
  if (typeof value === 'string') return value
  return JSON.stringify(value)
}

/** What came, in a few words: never a whole value. */
export function foundWords(value: Json): string {
  const type = typeOf(value)
  if (type === 'array') return 'a list'
  if (type === 'object') return 'an object'
  return type === 'string' ? 'text' : valueWords(value)
}

/** One line for an item of a list or a member: its name if it has one. */
export function summaryOf(value: Json | undefined): string | undefined {
  if (typeof value === 'string') return clipped(value)
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (!isObject(value)) return undefined
  for (const name of ['title', 'name', 'label', 'subject', 'id', 'key']) {
    const named = Object.hasOwn(value, name) ? value[name] : undefined
    if (typeof named === 'string' && named !== '') return clipped(named)
  }
  return Object.values(value)
    .filter((inner) => typeof inner === 'string' && inner !== '')
    .map((inner) => clipped(String(inner)))[0]
}

const SUMMARY_MAX = 60

function clipped(text: string): string {
  const line = text.slice(0, SUMMARY_MAX + 1).split('\n', 1)[0] ?? ''
  return line.length > SUMMARY_MAX ? `${line.slice(0, SUMMARY_MAX)}…` : line
}

export function bytesWords(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`
}
