// What this browser finds wrong with a value, in words and at the place the server would name. Advice only.
import { type Finding, sentence } from '../api/errors'
import { at, child, isList, isObject, type Json, type JsonSchema, member, steps } from './json'
import { effective, type Judged, listOf, type Model, modelOf } from './model'
import { counted, foundWords, typeWords, valueWords } from './words'

const FINDINGS_MAX = 50
const OPTIONS_SAID_MAX = 8

// They only say that something below is wrong, and what is below says it better.
const WRAPPERS = new Set([
  'properties',
  'patternProperties',
  'items',
  'prefixItems',
  '$ref',
  '$dynamicRef',
  'allOf',
  'if',
  'dependentSchemas',
  'dependencies',
  'additionalProperties',
  'unevaluatedProperties',
  'unevaluatedItems',
  'additionalItems',
])

export function validate(schema: JsonSchema, value: Json): Finding[] {
  const model = modelOf(schema)
  const placed = placedErrors(model.judged(value))
  const findings: Finding[] = []
  for (const error of withoutAlternatives(placed)) {
    const finding = told(model, error, value)
    const isKnown =
      finding && findings.some(({ pointer, message }) => pointer === finding.pointer && message === finding.message)
    if (finding && !isKnown) findings.push(finding)
    if (findings.length >= FINDINGS_MAX) break
  }
  return findings
}

interface Placed extends Judged {
  pointer: string
}

/** A schema `false` names no place of its own in the schema; it belongs to the error before it. */
function placedErrors(errors: readonly Judged[]): Placed[] {
  return errors.map((error, index) => ({
    ...error,
    keywordLocation:
      error.keyword === 'false' ? `${errors[index - 1]?.keywordLocation ?? '#'}/false` : error.keywordLocation,
    pointer: pointerOf(error.instanceLocation),
  }))
}

function pointerOf(location: string): string {
  const fragment = location.startsWith('#') ? location.slice(1) : location
  try {
    return decodeURIComponent(fragment)
  } catch {
    return fragment
  }
}

/** Of a union the closest alternative speaks: the one whose errors lie deepest, then the one with the fewest. */
function withoutAlternatives(errors: readonly Placed[]): Placed[] {
  const kept: Placed[] = []
  for (let index = 0; index < errors.length; index += 1) {
    const error = errors[index]
    if (!error) break
    const isUnion = error.keyword === 'anyOf' || error.keyword === 'oneOf'
    if (!isUnion && error.keyword !== 'propertyNames') {
      if (!WRAPPERS.has(error.keyword)) kept.push(error)
      continue
    }
    const below = belowOf(errors, index)
    index += below.length
    const closest = isUnion ? closestOf(error, below) : undefined
    kept.push(...(closest ?? [error]))
  }
  return kept
}

function belowOf(errors: readonly Placed[], index: number): Placed[] {
  const error = errors[index]
  const below: Placed[] = []
  for (const other of errors.slice(index + 1)) {
    const isBelow =
      error !== undefined &&
      other.keywordLocation.startsWith(`${error.keywordLocation}/`) &&
      `${other.instanceLocation}/`.startsWith(`${error.instanceLocation}/`)
    if (!isBelow) break
    below.push(other)
  }
  return below
}

function closestOf(union: Placed, below: readonly Placed[]): Placed[] | undefined {
  const alternatives = new Map<string, Placed[]>()
  for (const error of below) {
    const which = error.keywordLocation.slice(union.keywordLocation.length + 1).split('/', 1)[0] ?? ''
    alternatives.set(which, [...(alternatives.get(which) ?? []), error])
  }
  const ranked = [...alternatives.values()]
    .map((errors) => withoutAlternatives(errors))
    .filter((errors) => errors.length > 0)
    .map((errors) => ({ errors, depth: Math.min(...errors.map(depthOf)) }))
    .sort((left, right) => right.depth - left.depth || left.errors.length - right.errors.length)
  const [first, second] = ranked
  if (!first) return undefined
  // Nothing inside is closer than the whole: say it of the whole.
  if (first.depth <= steps(union.pointer).length && second !== undefined) return undefined
  return first.errors
}

/** A missing or unknown member lies one deeper than its object, as the finding will. */
function depthOf(error: Placed): number {
  return steps(error.pointer).length + (error.keyword === 'required' ? 1 : 0)
}

function told(model: Model, error: Placed, value: Json): Finding | undefined {
  const found = at(value, error.pointer)
  const limit = keywordValue(model, error.keywordLocation)
  const here = (message: string): Finding => ({ pointer: error.pointer, message })
  const quoted = error.error.match(/"([\s\S]*)"/)?.[1]
  switch (error.keyword) {
    case 'required':
      // The server fills in defaults before it judges, though not inside of alternatives.
      if (quoted !== undefined && !/\/(anyOf|oneOf|if|then|else)\//.test(error.keywordLocation)) {
        const parent = keywordValue(model, error.keywordLocation.slice(0, error.keywordLocation.lastIndexOf('/')))
        const part = isObject(parent) && isObject(parent.properties) ? member(parent.properties, quoted) : undefined
        if (isObject(part) && effective(model, part, undefined).default !== undefined) return undefined
      }
      return quoted === undefined
        ? undefined
        : { pointer: child(error.pointer, quoted), message: 'Required: fill it in.' }
    case 'dependentRequired': {
      const [, present, missing] = error.error.match(/^Instance has "([\s\S]*)" but does not have "([\s\S]*)"\.$/) ?? []
      if (missing === undefined) return undefined
      return { pointer: child(error.pointer, missing), message: `Required when “${present}” is given.` }
    }
    case 'false':
      return here('Not known here: remove it.')
    case 'type':
      return here(typeMessage(limit, found))
    case 'enum':
      return here(`Must be one of ${optionWords(listOf(limit))}.`)
    case 'const':
      return here(`Must be ${limit === undefined ? 'the fixed value' : valueWords(limit)}.`)
    case 'minLength':
      return here(`Must be at least ${counted(Number(limit), 'character')} long.`)
    case 'maxLength':
      return here(`Must be at most ${counted(Number(limit), 'character')} long; it has ${[...String(found)].length}.`)
    case 'minimum':
      return here(`Must be ${limit} or more.`)
    case 'maximum':
      return here(`Must be ${limit} or less.`)
    case 'exclusiveMinimum':
      return here(`Must be more than ${limit}.`)
    case 'exclusiveMaximum':
      return here(`Must be less than ${limit}.`)
    case 'multipleOf':
      return here(`Must be a multiple of ${limit}.`)
    case 'minItems':
      return here(`Needs at least ${counted(Number(limit), 'item')}.`)
    case 'maxItems':
      return here(`May have at most ${counted(Number(limit), 'item')}.`)
    case 'uniqueItems':
      return here('The same item is there twice.')
    case 'contains':
    case 'minContains':
      return here('An item that it must contain is missing.')
    case 'maxContains':
      return here('Contains too many items of one kind.')
    case 'minProperties':
      return here(`Needs at least ${counted(Number(limit), 'member')}.`)
    case 'maxProperties':
      return here(`May have at most ${counted(Number(limit), 'member')}.`)
    case 'pattern':
      return here(patternMessage(model, error.keywordLocation))
    case 'format':
      return here(formatMessage(String(limit)))
    case 'propertyNames':
      return here(quoted === undefined ? 'A name is not allowed here.' : `The name “${quoted}” is not allowed here.`)
    case 'not':
      return here('This is excluded: change it.')
    case 'oneOf':
      return here(
        /\(0 matches\)/.test(error.error)
          ? 'Fits none of the alternatives.'
          : 'Fits several alternatives: leave out what belongs to the others.',
      )
    case 'anyOf':
      return here('Fits none of the alternatives.')
    default:
      return here('Does not fit what is asked for here.')
  }
}

function typeMessage(wanted: Json | undefined, found: Json | undefined): string {
  const types = (isList(wanted) ? wanted : [wanted]).map(String)
  const words = types.map(typeWords).join(' or ')
  if (found === undefined || found === null) return `Must be ${words}.`
  if (types.some((type) => type === 'number' || type === 'integer') && typeof found === 'string') {
    const isHuge = /^-?\d+$/.test(found) && !Number.isSafeInteger(Number(found))
    return isHuge ? 'Too large to be exact: ±9007199254740991 is the limit.' : `Must be ${words}.`
  }
  return `Must be ${words}, not ${foundWords(found)}.`
}

function optionWords(options: readonly Json[]): string {
  const words = options.slice(0, OPTIONS_SAID_MAX).map(valueWords).join(', ')
  return options.length > OPTIONS_SAID_MAX ? `${words} and ${options.length - OPTIONS_SAID_MAX} more` : words
}

/** The schema's own words for its pattern, if it has any. */
function patternMessage(model: Model, location: string): string {
  const parent = location.slice(0, location.lastIndexOf('/'))
  const said = keywordValue(model, `${parent}/x-pattern-hint`) ?? keywordValue(model, `${parent}/patternErrorMessage`)
  return typeof said === 'string' ? said : 'Does not have the form that is asked for.'
}

const FORMATS: Record<string, string> = {
  email: 'an email address, as ada@example.com',
  'idn-email': 'an email address, as ada@example.com',
  uri: 'a whole address, as https://example.com/page',
  url: 'a whole address, as https://example.com/page',
  'uri-reference': 'an address or a path',
  uuid: 'a UUID, as 123e4567-e89b-12d3-a456-426614174000',
  date: 'a date, as 2026-03-31',
  time: 'a time with its zone, as 14:30:00Z',
  'date-time': 'a date and time with its zone, as 2026-03-31T14:30:00Z',
  duration: 'a duration, as P3D or PT2H',
  ipv4: 'an IPv4 address, as 192.0.2.1',
  ipv6: 'an IPv6 address, as 2001:db8::1',
  hostname: 'a host name, as www.example.com',
  regex: 'a regular expression',
  'json-pointer': 'a JSON pointer, as /a/0',
}

function formatMessage(format: string): string {
  return `Must be ${FORMATS[format] ?? `text in the form “${format}”`}.`
}

/** The value of the keyword that failed: the way there leads through references. */
function keywordValue(model: Model, location: string): Json | undefined {
  let here: Json | undefined = model.root
  for (const step of steps(pointerOf(location))) {
    if (step === '$ref' && isObject(here) && typeof here.$ref === 'string') {
      here = model.target(here.$ref)
      continue
    }
    here = isList(here) ? here[Number(step)] : isObject(here) && Object.hasOwn(here, step) ? here[step] : undefined
  }
  return here
}

/** What the server found wrong with a call's input (`error.details` of its envelope), in words for the field. */
export function serverFindings(details: unknown): Finding[] {
  const listed =
    typeof details === 'object' && details !== null && 'violations' in details ? details.violations : undefined
  if (!Array.isArray(listed)) return []
  return listed.flatMap((violation: unknown): Finding[] => {
    const { pointer, expected, found, message } = (violation ?? {}) as Record<string, unknown>
    if (typeof pointer !== 'string' || typeof message !== 'string') return []
    // The whole sentence names the place, which the field says already, and perhaps an advice, which is worth keeping.
    if (found === 'nothing') return [{ pointer, message: 'Required: fill it in.' }]
    const advice = message.split('; ').slice(1).join('; ')
    if (typeof expected !== 'string' || message.includes('is not a known member'))
      return [{ pointer, message: sentence(`not known here; ${advice}`) }]
    return [{ pointer, message: sentence(`must be ${expected}${advice === '' ? '' : `; ${advice}`}`) }]
  })
}
