// What a field says about itself below its control, and inside it while it is empty.
import { isList, isObject, type Json, type JsonObject, member } from './json'
import type { Kind } from './shape'
import { counted, valueWords } from './words'

const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '')
const number = (value: Json | undefined): number | undefined => (typeof value === 'number' ? value : undefined)

export function hintOf(schema: JsonObject, kind: Kind): string | undefined {
  const parts = [text(schema.description).trim(), boundsWords(schema, kind)]
  if (schema.deprecated === true) parts.unshift('Deprecated.')
  const told = parts.filter((part) => part !== '')
  // A sentence that something follows ends there, not before.
  const said = told.map((part, at) => (at < told.length - 1 ? part.replace(/(?<!\.)\.$/, '') : part)).join(' · ')
  return said === '' ? undefined : said
}

export function boundsWords(schema: JsonObject, kind: Kind): string {
  switch (kind) {
    case 'text':
    case 'long':
    case 'secret':
      return [lengthWords(schema), formWords(schema)].filter((part) => part !== '').join(' · ')
    case 'number':
      return rangeWords(schema)
    case 'list':
      return sizeWords(number(schema.minItems), number(schema.maxItems), 'item')
    case 'time':
    case 'date-time':
      return ''
    default:
      return ''
  }
}

function lengthWords(schema: JsonObject): string {
  const max = number(schema.maxLength)
  const min = number(schema.minLength)
  // "At least one character" is what "required" says already.
  return sizeWords(min === 1 ? undefined : min, max, 'character')
}

function sizeWords(min: number | undefined, max: number | undefined, what: string): string {
  if (min !== undefined && min > 0 && max !== undefined) {
    return min === max ? `exactly ${counted(min, what)}` : `${min.toLocaleString('en')} to ${counted(max, what)}`
  }
  if (max !== undefined) return `at most ${counted(max, what)}`
  return min !== undefined && min > 0 ? `at least ${counted(min, what)}` : ''
}

function formWords(schema: JsonObject): string {
  const said = text(schema['x-pattern-hint'])
  if (said !== '') return said
  const pattern = text(schema.pattern)
  if (pattern !== '' && pattern.length <= 60) return `form \`${pattern}\``
  if (schema.format === 'blob') return '`blob:` and the id of a file that was uploaded'
  return ''
}

function rangeWords(schema: JsonObject): string {
  const over = number(schema.exclusiveMinimum)
  const under = number(schema.exclusiveMaximum)
  const from = number(schema.minimum)
  const to = number(schema.maximum)
  const step = number(schema.multipleOf)
  const parts: string[] = []
  if (from !== undefined && to !== undefined) parts.push(`${from} to ${to}`)
  else {
    if (from !== undefined) parts.push(`${from} or more`)
    if (to !== undefined) parts.push(`${to} or less`)
  }
  if (over !== undefined) parts.push(`more than ${over}`)
  if (under !== undefined) parts.push(`less than ${under}`)
  if (step !== undefined && !(step === 1 && schema.type === 'integer')) parts.push(`in steps of ${step}`)
  return parts.join(', ')
}

/** The first example, while nothing is typed. */
export function placeholderOf(schema: JsonObject): string | undefined {
  const said = isObject(schema['x-field']) ? text(member(schema['x-field'], 'placeholder')) : ''
  if (said !== '') return said
  const [first] = isList(schema.examples) ? schema.examples : [schema.example]
  if (first === undefined || first === null || isObject(first)) return undefined
  const words = valueWords(first)
  return words.length <= 80 && !words.includes('\n') ? words : undefined
}
