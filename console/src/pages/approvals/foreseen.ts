// A plan that a runner made, as parts to read: a difference as lines, a command as one would type it, the rest by name.
import { canonical } from '../../lib/canonical'
import type { DiffLine } from './diff'
import { layout, lineText, shown } from './layout'

export type ForeseenPart =
  | { kind: 'difference'; name: string; lines: readonly (DiffLine | { kind: 'gap'; text: string })[] }
  | { kind: 'command'; name: string; words: readonly string[] }
  | { kind: 'text'; name: string; text: string }
  | { kind: 'fact'; name: string; text: string }

/** A value of more members than this is shown as it is. */
const MEMBERS_MAX = 8

export function foreseenParts(plan: unknown): ForeseenPart[] {
  if (!isRecord(plan)) return [part('', plan)]
  return members('', plan, 1)
}

function members(prefix: string, value: Record<string, unknown>, deeper: number): ForeseenPart[] {
  return Object.entries(value).flatMap(([member, inner]) => {
    // That it would run is what all of this says.
    if (prefix === '' && member === 'would_run') return []
    const name = prefix + member
    const opens = deeper > 0 && isRecord(inner) && Object.keys(inner).length <= MEMBERS_MAX
    return opens && Object.keys(inner).length > 0 ? members(`${name}.`, inner, deeper - 1) : [part(name, inner)]
  })
}

function part(name: string, value: unknown): ForeseenPart {
  if (typeof value === 'string') {
    if (name === 'difference') return { kind: 'difference', name, lines: differenceLines(value) }
    return { kind: value.includes('\n') ? 'text' : 'fact', name, text: value === '' ? 'empty' : value }
  }
  if (Array.isArray(value) && value.every((one): one is string => typeof one === 'string')) {
    if (name === 'command') return { kind: 'command', name, words: value.map(typed) }
    return { kind: 'fact', name, text: value.length === 0 ? 'none' : value.join(', ') }
  }
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) {
    return { kind: 'fact', name, text: 'none' }
  }
  if (typeof value !== 'object') return { kind: 'fact', name, text: String(value) }
  const text = layout(shown(canonical(value)))
    .map(lineText)
    .join('\n')
  return { kind: 'text', name, text }
}

/** The lines of a unified difference; its file names stand elsewhere. */
export function differenceLines(text: string): (DiffLine | { kind: 'gap'; text: string })[] {
  const lines = text.replace(/\n$/, '').split('\n')
  const body = lines.findIndex((line) => line.startsWith('@@'))
  return lines.slice(Math.max(body, 0)).map((line) => {
    if (line.startsWith('@@')) return { kind: 'gap', text: line.replace(/^@@ -(\d+).*$/, 'line $1') }
    if (line.startsWith('+')) return { kind: 'added', text: line.slice(1) }
    if (line.startsWith('-')) return { kind: 'removed', text: line.slice(1) }
    return { kind: 'same', text: line.startsWith(' ') ? line.slice(1) : line }
  })
}

/** A word as one would type it in a shell, so that where it ends is seen. */
export function typed(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
