// JSON as text, read as strictly as the server reads it, with the place and the words for what is wrong.
import type { Json } from './json'

export interface Unreadable {
  line: number
  column: number
  message: string
}

export type Parsed = { value: Json } | { wrong: Unreadable }

const DEPTH_MAX = 128
const NUMBER = /-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y
const SPACE = /[ \t\r\n]*/y
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON forbids them in texts
const TEXT = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const WORD = /true|false|null/y

class Wrong extends Error {
  constructor(
    readonly offset: number,
    message: string,
  ) {
    super(message)
  }
}

export function parseJson(text: string): Parsed {
  const reader = new Reader(text)
  try {
    return { value: reader.whole() }
  } catch (error) {
    if (!(error instanceof Wrong)) throw error
    const before = text.slice(0, error.offset).split('\n')
    return { wrong: { line: before.length, column: (before.at(-1) ?? '').length + 1, message: error.message } }
  }
}

class Reader {
  private offset = 0
  constructor(private readonly text: string) {}

  whole(): Json {
    const value = this.value(0)
    this.taken(SPACE)
    if (this.offset < this.text.length) throw new Wrong(this.offset, 'the value ends before this')
    return value
  }

  private taken(expression: RegExp): string | undefined {
    expression.lastIndex = this.offset
    const match = expression.exec(this.text)?.[0]
    if (match !== undefined) this.offset += match.length
    return match
  }

  private next(): string {
    this.taken(SPACE)
    return this.text.charAt(this.offset)
  }

  private value(depth: number): Json {
    const first = this.next()
    if (depth > DEPTH_MAX) throw new Wrong(this.offset, `nested deeper than ${DEPTH_MAX} levels`)
    if (first === '{') return this.object(depth)
    if (first === '[') return this.list(depth)
    if (first === '"') return this.string()
    const word = this.taken(WORD)
    if (word !== undefined) return JSON.parse(word) as Json
    if (/[-\d]/.test(first)) return this.number()
    if (first === '') throw new Wrong(this.offset, 'a value is missing at the end')
    if (first === "'") throw new Wrong(this.offset, 'texts stand in double quotes')
    throw new Wrong(this.offset, 'a value is expected here: text in double quotes, a number, true, false, null, [ or {')
  }

  private number(): number {
    const from = this.offset
    const written = this.taken(NUMBER)
    if (written === undefined || /^[\d.eE]/.test(this.text.charAt(this.offset))) {
      throw new Wrong(from, 'this is not a number as JSON writes it')
    }
    const value = Number(written)
    if (!Number.isFinite(value)) throw new Wrong(from, 'this number is too large')
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      throw new Wrong(from, 'whole numbers beyond ±9007199254740991 are not exact; write it as text')
    }
    return value
  }

  private string(): string {
    const from = this.offset
    const written = this.taken(TEXT)
    if (written !== undefined) return JSON.parse(written) as string
    const line = this.text.slice(from + 1).search(/["\n]/)
    const open = line === -1 || this.text.charAt(from + 1 + line) === '\n'
    throw new Wrong(
      from,
      open ? 'this text has no closing double quote' : 'this text holds a \\ or a control character',
    )
  }

  private list(depth: number): Json[] {
    const items: Json[] = []
    this.offset += 1
    if (this.next() === ']') return this.closed(items)
    for (;;) {
      items.push(this.value(depth + 1))
      const mark = this.next()
      if (mark === ']') return this.closed(items)
      if (mark !== ',') throw new Wrong(this.offset, 'a comma or ] is expected here')
      this.offset += 1
      if (this.next() === ']') throw new Wrong(this.offset, 'a comma stands before this ] with nothing after it')
    }
  }

  private object(depth: number): Json {
    const members: [string, Json][] = []
    const names = new Set<string>()
    this.offset += 1
    if (this.next() === '}') return this.closed({})
    for (;;) {
      if (this.next() === '}') throw new Wrong(this.offset, 'a comma stands before this } with nothing after it')
      const from = this.offset
      if (this.next() !== '"') throw new Wrong(from, 'a name in double quotes is expected here')
      const name = this.string()
      if (names.has(name)) throw new Wrong(from, `the name “${name}” is there twice`)
      names.add(name)
      if (this.next() !== ':') throw new Wrong(this.offset, 'a colon is expected here')
      this.offset += 1
      members.push([name, this.value(depth + 1)])
      const mark = this.next()
      if (mark === '}') return this.closed(Object.fromEntries(members))
      if (mark !== ',') throw new Wrong(this.offset, 'a comma or } is expected here')
      this.offset += 1
    }
  }

  private closed<Value>(value: Value): Value {
    this.offset += 1
    return value
  }
}
