// Markdown as a tree of plain nodes. There is no HTML in it: a tag is text like any other. Every step looks a bounded way
// ahead, so no text makes it slow.
export type Inline =
  | { type: 'text'; text: string }
  | { type: 'code'; text: string }
  | { type: 'break' }
  | { type: 'strong' | 'emphasis'; inner: Inline[] }
  | { type: 'link'; href: string; inner: Inline[] }

export type Block =
  | { type: 'heading'; level: number; inner: Inline[] }
  | { type: 'paragraph'; inner: Inline[] }
  | { type: 'code'; text: string }
  | { type: 'quote'; blocks: Block[] }
  | { type: 'list'; ordered: boolean; start: number; items: Block[][] }
  | { type: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { type: 'rule' }

const DEPTH_MAX = 6
const AHEAD_MAX = 2_000
const ITEM = /^(\s{0,12})([-*+]|\d{1,9}[.)])\s+(.*)$/
const FENCE = /^\s{0,3}(`{3,}|~{3,})/
const HEADING = /^ {0,3}(#{1,6})[ \t]+(\S.*)$/
const RULE = /^\s{0,3}([-*_])(\s*\1){2,}\s*$/
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/

/** Text that was written as Markdown, rather than text in which a sign happens to stand. */
export function looksLikeMarkdown(text: string): boolean {
  const start = text.slice(0, 4_000)
  return (
    /^#{1,6} \S/m.test(start) ||
    /^\s{0,3}```/m.test(start) ||
    /\*\*\S[^*\n]{0,200}\*\*/.test(start) ||
    /\[[^\]\n]{1,200}\]\(https?:\/\//.test(start) ||
    /^[-*+] \S.*\n[-*+] \S/m.test(start) ||
    /^1\. \S.*\n2\. \S/m.test(start) ||
    start.split('\n').some((line) => line.includes('|') && line.includes('---') && TABLE_RULE.test(line.slice(0, 500)))
  )
}

export function markdown(text: string): Block[] {
  return blocks(text.split(/\r\n?|[\n\u2028\u2029]/), 0)
}

/** Without the signs that may close a heading. */
function bareHeading(text: string): string {
  const bare = text.trimEnd().replace(/#+$/, '')
  return bare === '' || /\s$/.test(bare) ? bare.trimEnd() : text.trimEnd()
}

function blocks(lines: readonly string[], depth: number): Block[] {
  const found: Block[] = []
  let index = 0
  while (index < lines.length) {
    const line = lines[index] ?? ''
    const heading = HEADING.exec(line.slice(0, AHEAD_MAX))
    const fence = FENCE.exec(line)?.[1]
    if (line.trim() === '') index += 1
    else if (fence !== undefined) {
      let to = index + 1
      while (to < lines.length && !(lines[to] ?? '').trim().startsWith(fence)) to += 1
      found.push({ type: 'code', text: lines.slice(index + 1, to).join('\n') })
      index = to + 1
    } else if (heading) {
      found.push({ type: 'heading', level: heading[1]?.length ?? 1, inner: inlines(bareHeading(heading[2] ?? '')) })
      index += 1
    } else if (RULE.test(line.slice(0, AHEAD_MAX))) {
      found.push({ type: 'rule' })
      index += 1
    } else if (/^\s{0,3}>/.test(line) && depth < DEPTH_MAX) {
      const to = endOf(lines, index, (other) => /^\s{0,3}>/.test(other))
      const inner = lines.slice(index, to).map((other) => other.replace(/^\s{0,3}> ?/, ''))
      found.push({ type: 'quote', blocks: blocks(inner, depth + 1) })
      index = to
    } else if (ITEM.test(line.slice(0, AHEAD_MAX)) && depth < DEPTH_MAX) {
      const [list, to] = listAt(lines, index, depth)
      found.push(list)
      index = to
    } else if (
      line.includes('|') &&
      TABLE_RULE.test((lines[index + 1] ?? '').slice(0, AHEAD_MAX)) &&
      (lines[index + 1] ?? '').includes('-')
    ) {
      const to = endOf(lines, index + 2, (other) => other.includes('|'))
      const head = cells(line)
      found.push({
        type: 'table',
        head,
        rows: lines.slice(index + 2, to).map((row) => cells(row).slice(0, head.length)),
      })
      index = to
    } else {
      const to = Math.max(
        endOf(lines, index, (other, at) => at === index || !startsBlock(other)),
        index + 1,
      )
      found.push({ type: 'paragraph', inner: inlines(lines.slice(index, to).join('\n').trim()) })
      index = to
    }
  }
  return found
}

function startsBlock(line: string): boolean {
  const start = line.slice(0, AHEAD_MAX)
  return start.trim() === '' || FENCE.test(start) || HEADING.test(start) || /^\s{0,3}>/.test(start) || ITEM.test(start)
}

function endOf(lines: readonly string[], from: number, holds: (line: string, at: number) => boolean): number {
  for (let at = from; at < lines.length; at += 1) if (!holds(lines[at] ?? '', at)) return at
  return lines.length
}

function listAt(lines: readonly string[], from: number, depth: number): [Block, number] {
  const first = ITEM.exec((lines[from] ?? '').slice(0, AHEAD_MAX))
  const indent = first?.[1]?.length ?? 0
  const ordered = /\d/.test(first?.[2] ?? '')
  const items: string[][] = []
  let index = from
  for (; index < lines.length; index += 1) {
    const line = lines[index] ?? ''
    const item = ITEM.exec(line.slice(0, AHEAD_MAX))
    const own = items.at(-1)
    if (item && (item[1]?.length ?? 0) <= indent && /\d/.test(item[2] ?? '') === ordered) {
      items.push([line.slice(line.length - (item[3]?.length ?? 0) - Math.max(line.length - AHEAD_MAX, 0))])
    } else if (own && line.trim() !== '' && line.startsWith(' '.repeat(indent + 2))) own.push(line.slice(indent + 2))
    else if (own && line.trim() === '' && (lines[index + 1] ?? '').startsWith(' '.repeat(indent + 2))) own.push('')
    else break
  }
  const start = Number.parseInt(first?.[2] ?? '1', 10) || 1
  return [{ type: 'list', ordered, start, items: items.map((item) => blocks(item, depth + 1)) }, index]
}

function cells(line: string): Inline[][] {
  const bare = line.trim().replace(/^\|/, '').replace(/\|$/, '')
  // `\\|` within a cell is a bar of its text.
  return bare.split(/(?<!\\)\|/).map((cell) => inlines(cell.trim().replaceAll('\\|', '|')))
}

const MARKS = /[`*_[\\]|https?:\/\/| {2}\n/g

export function inlines(text: string, depth = 0): Inline[] {
  const found: Inline[] = []
  let plain = ''
  const flush = () => {
    if (plain !== '') found.push({ type: 'text', text: plain })
    plain = ''
  }
  const push = (node: Inline) => {
    flush()
    found.push(node)
  }
  let index = 0
  while (index < text.length) {
    MARKS.lastIndex = index
    const mark = depth > DEPTH_MAX ? null : MARKS.exec(text)
    if (!mark) {
      plain += text.slice(index)
      break
    }
    plain += text.slice(index, mark.index)
    index = mark.index
    const ahead = text.slice(index, index + AHEAD_MAX)
    const taken =
      breakAt(ahead) ??
      codeAt(ahead) ??
      strongAt(ahead, text.charAt(index - 1), depth) ??
      linkAt(ahead, depth) ??
      addressAt(ahead)
    if (taken) {
      push(taken[0])
      index += taken[1]
    } else if (ahead.startsWith('\\') && /^\\[!-/:-@[-`{-~]/.test(ahead)) {
      plain += ahead.charAt(1)
      index += 2
    } else {
      plain += mark[0]
      index += mark[0].length
    }
  }
  flush()
  return found
}

type Taken = [Inline, length: number]

/** A line end means a space; two spaces or a backslash before it mean a new line. */
function breakAt(ahead: string): Taken | undefined {
  const written = /^(?: {2}|\\)\n/.exec(ahead)?.[0]
  return written === undefined ? undefined : [{ type: 'break' }, written.length]
}

function codeAt(ahead: string): Taken | undefined {
  const fence = /^`+/.exec(ahead)?.[0]
  if (fence === undefined) return undefined
  const end = ahead.indexOf(fence, fence.length)
  return end === -1 ? undefined : [{ type: 'code', text: ahead.slice(fence.length, end).trim() }, end + fence.length]
}

function strongAt(ahead: string, before: string, depth: number): Taken | undefined {
  const mark = /^(\*\*|__|\*|_)(?=[^\s*_])/.exec(ahead)?.[1]
  // `snake_case` is a name.
  if (mark === undefined || (mark.startsWith('_') && /[\p{L}\d]/u.test(before))) return undefined
  const end = ahead.indexOf(mark, mark.length + 1)
  if (end === -1 || /\s/.test(ahead.charAt(end - 1))) return undefined
  if (mark.startsWith('_') && /[\p{L}\d]/u.test(ahead.charAt(end + mark.length))) return undefined
  const inner = inlines(ahead.slice(mark.length, end), depth + 1)
  return [{ type: mark.length === 2 ? 'strong' : 'emphasis', inner }, end + mark.length]
}

function linkAt(ahead: string, depth: number): Taken | undefined {
  if (!ahead.startsWith('[')) return undefined
  const close = ahead.indexOf('](')
  const end = close === -1 ? -1 : ahead.indexOf(')', close)
  if (close === -1 || end === -1 || ahead.slice(0, close).includes('\n\n')) return undefined
  const href = safeAddress(
    ahead
      .slice(close + 2, end)
      .trim()
      .split(/\s/, 1)[0] ?? '',
  )
  const words = ahead.slice(1, close)
  // An address of another kind is shown as it was written, and leads nowhere.
  if (href === undefined) return [{ type: 'text', text: ahead.slice(0, end + 1) }, end + 1]
  return [{ type: 'link', href, inner: inlines(words, depth + DEPTH_MAX) }, end + 1]
}

function addressAt(ahead: string): Taken | undefined {
  const written = /^https?:\/\/[^\s<>"'`)\]}]{1,1000}/.exec(ahead)?.[0].replace(/[.,;:!?]+$/, '')
  const href = written === undefined ? undefined : safeAddress(written)
  if (written === undefined || href === undefined) return undefined
  return [{ type: 'link', href, inner: [{ type: 'text', text: written }] }, written.length]
}

/** Only what a browser opens as a page of the web. */
export function safeAddress(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text)) return undefined
  try {
    const url = new URL(text)
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : undefined
  } catch {
    return undefined
  }
}
