// The small part of Markdown that tools are documented in, as a tree of plain values. What it does not know stays text;
// markup of other kinds is text too.
export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong' | 'em'; inside: readonly Inline[] }
  | { kind: 'link'; href: string; inside: readonly Inline[] }

export type Block =
  | { kind: 'heading'; level: number; inside: readonly Inline[] }
  | { kind: 'paragraph' | 'quote'; inside: readonly Inline[] }
  | { kind: 'code'; text: string }
  | { kind: 'list'; ordered: boolean; items: readonly (readonly Inline[])[] }
  | { kind: 'table'; head: readonly (readonly Inline[])[]; rows: readonly (readonly (readonly Inline[])[])[] }
  | { kind: 'rule' }

const FENCE = /^ {0,3}(```+|~~~+)/
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/
const BULLET = /^ {0,3}[-*+]\s+(.*)$/
const NUMBER = /^ {0,3}\d{1,9}[.)]\s+(.*)$/
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/
const QUOTE = /^ {0,3}>\s?(.*)$/
const TABLE_RULE = /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/

export function parseMarkdown(text: string): Block[] {
  const lines = text.replaceAll('\r\n', '\n').split('\n')
  const blocks: Block[] = []
  let at = 0
  const line = () => lines[at] ?? ''
  const gather = (pattern: RegExp): string[] => {
    const found: string[] = []
    for (let match = pattern.exec(line()); at < lines.length && match; match = pattern.exec(line())) {
      found.push(match[1] ?? '')
      at += 1
      // A line that goes on belongs to the item before it.
      while (/^\s{2,}\S/.test(line()) && !pattern.test(line())) {
        found[found.length - 1] += ` ${line().trim()}`
        at += 1
      }
    }
    return found
  }
  while (at < lines.length) {
    const fence = FENCE.exec(line())?.[1]
    const heading = HEADING.exec(line())
    if (line().trim() === '') at += 1
    else if (fence !== undefined) {
      at += 1
      const code: string[] = []
      while (at < lines.length && !line().trimStart().startsWith(fence)) {
        code.push(line())
        at += 1
      }
      at += 1
      blocks.push({ kind: 'code', text: code.join('\n') })
    } else if (heading) {
      blocks.push({ kind: 'heading', level: (heading[1] ?? '#').length, inside: parseInline(heading[2] ?? '') })
      at += 1
    } else if (RULE.test(line())) {
      blocks.push({ kind: 'rule' })
      at += 1
    } else if (BULLET.test(line())) {
      blocks.push({ kind: 'list', ordered: false, items: gather(BULLET).map((item) => parseInline(item)) })
    } else if (NUMBER.test(line())) {
      blocks.push({ kind: 'list', ordered: true, items: gather(NUMBER).map((item) => parseInline(item)) })
    } else if (QUOTE.test(line())) {
      blocks.push({ kind: 'quote', inside: parseInline(gather(QUOTE).join(' ')) })
    } else if (line().includes('|') && TABLE_RULE.test(lines[at + 1] ?? '')) {
      const head = cells(line())
      const rows: Inline[][][] = []
      at += 2
      while (line().includes('|')) {
        rows.push(cells(line()))
        at += 1
      }
      blocks.push({ kind: 'table', head, rows })
    } else {
      const words: string[] = []
      while (at < lines.length && line().trim() !== '' && !beginsBlock(line())) {
        words.push(line().trim())
        at += 1
      }
      blocks.push({ kind: 'paragraph', inside: parseInline(words.join(' ')) })
    }
  }
  return blocks
}

function beginsBlock(line: string): boolean {
  return [FENCE, HEADING, BULLET, NUMBER, QUOTE, RULE].some((pattern) => pattern.test(line))
}

function cells(line: string): Inline[][] {
  const inner = line.trim().replace(/^\|/, '').replace(/\|$/, '')
  return inner.split(/(?<!\\)\|/).map((cell) => parseInline(cell.replaceAll('\\|', '|').trim()))
}

const MARKS = [
  { pattern: /`([^`]+)`/, make: (match: RegExpExecArray): Inline => ({ kind: 'code', text: match[1] ?? '' }) },
  {
    pattern: /\[([^\]]+)\]\(([^()\s]+)\)/,
    make: (match: RegExpExecArray, depth: number): Inline => {
      const href = safeHref(match[2] ?? '')
      return href === undefined
        ? { kind: 'text', text: match[0] }
        : { kind: 'link', href, inside: parseInline(match[1] ?? '', depth + 1) }
    },
  },
  {
    pattern: /\*\*(\S(?:[^*]*\S)?)\*\*/,
    make: (match: RegExpExecArray, depth: number): Inline => ({
      kind: 'strong',
      inside: parseInline(match[1] ?? '', depth + 1),
    }),
  },
  {
    pattern: /(?<![\w*])[*_](\S(?:[^*_]*\S)?)[*_](?![\w*])/,
    make: (match: RegExpExecArray, depth: number): Inline => ({
      kind: 'em',
      inside: parseInline(match[1] ?? '', depth + 1),
    }),
  },
] as const

const DEPTH_MAX = 4

export function parseInline(text: string, depth = 0): Inline[] {
  if (text === '') return []
  if (depth > DEPTH_MAX) return [{ kind: 'text', text }]
  const found: Inline[] = []
  let rest = text
  while (rest !== '') {
    const first = MARKS.map(({ pattern, make }) => ({ match: pattern.exec(rest), make }))
      .filter((one): one is { match: RegExpExecArray; make: (typeof MARKS)[number]['make'] } => one.match !== null)
      .sort((one, other) => one.match.index - other.match.index)[0]
    if (!first) break
    const { match, make } = first
    if (match.index > 0) found.push({ kind: 'text', text: rest.slice(0, match.index) })
    found.push(make(match, depth))
    rest = rest.slice(match.index + match[0].length)
  }
  if (rest !== '') found.push({ kind: 'text', text: rest })
  return found
}

/** Only what opens a page; never a script, a file or data. */
export function safeHref(href: string): string | undefined {
  if (!/^https?:\/\//i.test(href)) return undefined
  return URL.canParse(href) ? href : undefined
}
