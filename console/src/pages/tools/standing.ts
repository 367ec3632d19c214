// How a tool stands, in a few words: what a person must know before they open it.
import { sentence } from '../../api/errors'
import type { Shape, Tone } from '../../ui/Badge'
import { TOOL } from '../../ui/domain'
import type { ToolRow } from './queries'

export interface Mark {
  tone: Tone
  shape: Shape
  words: string
  why: string
  /** Calls of it run all the same. */
  runs?: boolean
}

type Standing = Pick<ToolRow, 'state' | 'enabled' | 'stopped' | 'requires_approval' | 'why_not'>
export type Secret = ToolRow['secrets'][number]

function mark(look: keyof typeof TOOL, why: string): Mark {
  const [tone, shape, words] = TOOL[look]
  return { tone, shape, words, why }
}

/** Why it does not run, if it does not: the strongest reason alone. */
export function stops({ state, enabled, stopped, why_not }: Standing): Mark | undefined {
  if (state === 'blocked') return mark('blocked', 'No call of it runs, whoever makes it.')
  if (stopped) return mark('stopped', sentence(stopped))
  if (!enabled) return mark('off', 'It is not enabled in this tenant.')
  if (why_not) return mark('noRunner', sentence(why_not))
  if (state === 'deprecated') return { ...mark('deprecated', 'It still runs, and will go one day.'), runs: true }
  return undefined
}

/** What the keys of a tool mean for the one who looks: the worst of them. */
export function keys(secrets: readonly Secret[]): Mark | undefined {
  const required = secrets.filter((secret) => secret.required)
  const missing = required.filter(({ scope }) => !scope)
  if (missing.length > 0) {
    return { tone: 'warn', shape: 'diamond', words: 'missing key', why: `Nobody has set ${names(missing)}.` }
  }
  const withheld = required.filter(({ given }) => !given)
  if (withheld.length > 0) {
    const why = `The owner of ${names(withheld)} has not given it to this tool.`
    return { tone: 'warn', shape: 'diamond', words: 'key not given', why }
  }
  const used = secrets.filter(({ scope, given }) => scope && given)
  const org = used.filter(({ scope }) => scope === 'org')
  if (org.length > 0) {
    const why = `Neither you nor your workspace has ${names(org)}: the whole organisation’s is used.`
    return { tone: 'warn', shape: 'ring', words: 'using organisation key', why }
  }
  if (used.some(({ scope }) => scope === 'workspace')) {
    return { tone: 'idle', shape: 'dot', words: 'using workspace key', why: 'A key of your workspace is used.' }
  }
  if (used.length > 0) return { tone: 'idle', shape: 'dot', words: 'using your key', why: 'A key of your own is used.' }
  return undefined
}

export function asks({ requires_approval }: Standing): Mark | undefined {
  return requires_approval ? mark('asks', 'Each call waits until a person has decided.') : undefined
}

function names(secrets: readonly Secret[]): string {
  return secrets.map(({ name }) => name).join(', ')
}
