// The text of a call's arguments, laid out to be read and never rewritten: every token is the one that was stored.
//
// Nothing here parses numbers or unescapes texts, so what a person reads is what will run: 9007199254740993 stays that,
// and "\u0041" stays as it was written.

import type { Json } from '../../form/json'
import { canonical } from '../../lib/canonical'
import { codeOf } from '../../lib/hidden'
import { classOf, UNSEEN } from '../../lib/unseen'

export type PartKind = 'name' | 'text' | 'number' | 'word' | 'mark' | 'hidden' | 'break'

export interface Part {
  kind: PartKind
  text: string
}

export interface Line {
  indent: number
  parts: readonly Part[]
}

/** Characters that do not show themselves, as in the server's `input_shown`. */
const HIDDEN = new RegExp(classOf(UNSEEN), 'gu')

/** As the server writes out what eyes do not see. */
export function shown(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`)
}

/** The codes of characters in a value that a form or an editor would not show. */
export function unseenIn(value: unknown): string[] {
  const found = canonical(value).match(HIDDEN) ?? []
  return [...new Set(found)].map(codeOf)
}

/** The value without them. Line ends and tabs stay: they are written out wherever a value is shown. */
export function withoutUnseen(value: Json): Json {
  if (typeof value === 'string') return value.replace(HIDDEN, (one) => (/[\n\r\t]/.test(one) ? one : ''))
  if (Array.isArray(value)) return value.map(withoutUnseen)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withoutUnseen(member)]))
}

const TOKEN = /"(?:\\[\s\S]|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g
const ESCAPE = /\\u\{[0-9a-f]+\}|\\n|\\[\s\S]/g

/** Canonical JSON as lines. A text with line ends goes on in the next line, behind a visible `\n`. */
export function layout(text: string): Line[] {
  const lines: { indent: number; parts: Part[] }[] = []
  let line: { indent: number; parts: Part[] } = { indent: 0, parts: [] }
  let depth = 0
  const tokens = text.match(TOKEN) ?? []
  const next = (indent: number) => {
    if (line.parts.length > 0) lines.push(line)
    line = { indent, parts: [] }
  }
  tokens.forEach((token, index) => {
    const following = tokens[index + 1]
    const before = tokens[index - 1]
    if (token === '{' || token === '[') {
      line.parts.push({ kind: 'mark', text: token })
      const closes = following === '}' || following === ']'
      if (!closes) next(++depth)
    } else if (token === '}' || token === ']') {
      if (before !== '{' && before !== '[') next(--depth)
      line.parts.push({ kind: 'mark', text: token })
    } else if (token === ',') {
      line.parts.push({ kind: 'mark', text: ',' })
      next(depth)
    } else if (token === ':') {
      line.parts.push({ kind: 'mark', text: ': ' })
    } else if (token.startsWith('"')) {
      const kind = following === ':' ? 'name' : 'text'
      for (const part of textParts(token, kind)) {
        line.parts.push(part)
        if (part.kind === 'break') next(depth + 1)
      }
    } else {
      line.parts.push({ kind: /^[-0-9]/.test(token) ? 'number' : 'word', text: token })
    }
  })
  next(0)
  return lines
}

function textParts(token: string, kind: 'name' | 'text'): Part[] {
  const parts: Part[] = []
  let from = 0
  const plain = (until: number) => {
    if (until > from) parts.push({ kind, text: token.slice(from, until) })
  }
  for (const match of token.matchAll(ESCAPE)) {
    const written = match[0]
    const until = match.index + written.length
    const isBreak = written === '\\n' && kind === 'text' && token[until] !== '"'
    const isHidden = written.startsWith('\\u')
    if (!isBreak && !isHidden) continue
    plain(match.index)
    parts.push({ kind: isBreak ? 'break' : 'hidden', text: written })
    from = until
  }
  plain(token.length)
  return parts
}

/** A line as one text, for comparing. */
export function lineText({ indent, parts }: Line): string {
  return '  '.repeat(indent) + parts.map(({ text }) => text).join('')
}

/** The first `limit` characters, and how many are folded away behind them. */
export function cut(lines: readonly Line[], limit: number): { lines: readonly Line[]; folded: number } {
  let left = limit
  let folded = 0
  const kept: Line[] = []
  for (const line of lines) {
    const parts: Part[] = []
    for (const part of line.parts) {
      if (left >= part.text.length) {
        parts.push(part)
        left -= part.text.length
        continue
      }
      // Only texts are cut within; a mark or a number stays whole or goes.
      const keeps = part.kind === 'text' ? left : 0
      if (keeps > 0) parts.push({ ...part, text: part.text.slice(0, keeps) })
      folded += part.text.length - keeps
      left = 0
    }
    if (parts.length > 0) kept.push({ ...line, parts })
  }
  return { lines: kept, folded }
}
