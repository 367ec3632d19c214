// What differs between two values: by member, and line by line.

export interface DiffLine {
  kind: 'same' | 'removed' | 'added'
  text: string
  /** Where the line differs from its counterpart: `[from, until)`. */
  mark?: readonly [from: number, until: number]
}

export interface MemberChange {
  kind: 'added' | 'removed' | 'changed'
  /** A JSON pointer; empty for the whole value. */
  pointer: string
}

// Beyond it a whole block is shown as replaced: exact, only less fine.
const CELLS_MAX = 4_000_000

export function diffLines(before: readonly string[], after: readonly string[]): DiffLine[] {
  let head = 0
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1
  let tail = 0
  while (
    tail < before.length - head &&
    tail < after.length - head &&
    before[before.length - 1 - tail] === after[after.length - 1 - tail]
  ) {
    tail += 1
  }
  const same = (text: string): DiffLine => ({ kind: 'same', text })
  const lines = [
    ...before.slice(0, head).map(same),
    ...between(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...before.slice(before.length - tail).map(same),
  ]
  return withMarks(lines)
}

function between(before: readonly string[], after: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ kind: 'removed', text })
  const added = (text: string): DiffLine => ({ kind: 'added', text })
  if (before.length * after.length > CELLS_MAX) return [...before.map(removed), ...after.map(added)]
  // The longest common subsequence, counted from the end.
  const width = after.length + 1
  const longest = new Uint32Array((before.length + 1) * width)
  const at = (i: number, j: number) => longest[i * width + j] ?? 0
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = before[i] === after[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
    }
  }
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < before.length || j < after.length) {
    const [left, right] = [before[i], after[j]]
    if (left !== undefined && left === right) {
      lines.push({ kind: 'same', text: left })
      i += 1
      j += 1
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      lines.push(removed(left))
      i += 1
    } else if (right !== undefined) {
      lines.push(added(right))
      j += 1
    }
  }
  return lines
}

/** Where as many lines were added as removed, each pair is compared within. */
function withMarks(lines: DiffLine[]): DiffLine[] {
  const marked = [...lines]
  let at = 0
  while (at < marked.length) {
    const removed = runOf(marked, at, 'removed')
    const added = runOf(marked, at + removed, 'added')
    if (removed > 0 && removed === added) {
      for (let index = at; index < at + removed; index += 1) {
        const [left, right] = [marked[index], marked[index + removed]]
        if (!left || !right) continue
        const [from, end] = common(left.text, right.text)
        marked[index] = { ...left, mark: whole(left.text, from, left.text.length - end) }
        marked[index + removed] = { ...right, mark: whole(right.text, from, right.text.length - end) }
      }
    }
    at += Math.max(1, removed + added)
  }
  return marked
}

function runOf(lines: readonly DiffLine[], from: number, kind: DiffLine['kind']): number {
  let count = 0
  while (lines[from + count]?.kind === kind) count += 1
  return count
}

function common(left: string, right: string): [from: number, end: number] {
  const shortest = Math.min(left.length, right.length)
  let from = 0
  while (from < shortest && left[from] === right[from]) from += 1
  let end = 0
  while (end < shortest - from && left[left.length - 1 - end] === right[right.length - 1 - end]) end += 1
  return [from, end]
}

const IN_WORD = /[\p{L}\p{N}_]/u

/** Half a word is harder to read than the word: `true` for `false`, not `tru` for `fals`. */
function whole(text: string, from: number, until: number): [from: number, until: number] {
  const inWord = (at: number) => IN_WORD.test(text[at] ?? '')
  let start = from
  let end = until
  while (start > 0 && inWord(start) && inWord(start - 1)) start -= 1
  while (end < text.length && inWord(end) && inWord(end - 1)) end += 1
  return [start, end]
}

export function memberChanges(before: unknown, after: unknown, pointer = ''): MemberChange[] {
  if (isMap(before) && isMap(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort()
    return names.flatMap((name) => {
      const at = `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
      if (!Object.hasOwn(before, name)) return [{ kind: 'added', pointer: at } as const]
      if (!Object.hasOwn(after, name)) return [{ kind: 'removed', pointer: at } as const]
      return memberChanges(before[name], after[name], at)
    })
  }
  return same(before, after) ? [] : [{ kind: 'changed', pointer }]
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function same(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => same(item, right[index]))
  }
  if (isMap(left) && isMap(right)) return memberChanges(left, right).length === 0
  return left === right
}

/** The changed lines with `around` equal ones beside them; a number stands for that many equal lines left out. */
export function folded(lines: readonly DiffLine[], around = 2): (DiffLine | number)[] {
  const near = lines.map((_, index) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'),
  )
  const shown: (DiffLine | number)[] = []
  for (const [index, line] of lines.entries()) {
    const last = shown.at(-1)
    if (near[index]) shown.push(line)
    else if (typeof last === 'number') shown[shown.length - 1] = last + 1
    else shown.push(1)
  }
  return shown
}
