// What a standing grant may demand of the arguments, offered from the arguments of the call that is decided on.

export type ConstraintKind = 'const' | 'prefix' | 'path_under' | 'url_host' | 'max'

export interface Leaf {
  pointer: string
  value: unknown
}

export interface Choice {
  pointer: string
  kind: ConstraintKind
  /** As written in the field; `const` takes the call's own value. */
  text: string
}

const LEAVES_MAX = 40

/**
 * What can be loosened one by one, by its pointer: the members of objects. A list is one value, since a demand on its
 * items would say nothing of how many there are. Of more than can be looked at, only the whole is offered.
 */
export function leavesOf(input: unknown): Leaf[] {
  const leaves = membersOf(input, '')
  return leaves.length <= LEAVES_MAX ? leaves : [{ pointer: '', value: input }]
}

function membersOf(value: unknown, pointer: string): Leaf[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [{ pointer, value }]
  const members = Object.entries(value)
  if (members.length === 0) return [{ pointer, value }]
  return members.flatMap(([name, member]) =>
    membersOf(member, `${pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  )
}

/** Nothing was loosened: then the whole input is demanded, so that no argument can be added either. */
export function isExact(choices: readonly Choice[], leaves: readonly Leaf[]): boolean {
  return choices.length === leaves.length && choices.every(({ kind }) => kind === 'const')
}

const WORDS: Record<ConstraintKind, string> = {
  const: 'is exactly this',
  prefix: 'begins with',
  path_under: 'is a path under',
  url_host: 'is an address of host',
  max: 'is at most',
}

export function kindsFor({ value }: Leaf): { id: ConstraintKind; label: string }[] {
  const kinds: ConstraintKind[] = ['const']
  if (typeof value === 'number') kinds.push('max')
  if (typeof value === 'string') {
    if (hostOf(value)) kinds.push('url_host')
    else if (value.includes('/')) kinds.push('path_under')
    kinds.push('prefix')
  }
  return kinds.map((id) => ({ id, label: WORDS[id] }))
}

/** What the field holds at first. */
export function suggestion({ value }: Leaf, kind: ConstraintKind): string {
  if (kind === 'url_host') return hostOf(String(value)) ?? ''
  if (kind === 'path_under') return String(value).slice(0, String(value).lastIndexOf('/')) || '/'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function hostOf(text: string): string | undefined {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text)) return
  return new URL(text).hostname
}

/** As the API takes it; `undefined` where the field holds nothing usable. */
export function constraintOf(choice: Choice, leaves: readonly Leaf[]): Record<string, unknown> | undefined {
  const { pointer, kind, text } = choice
  const leaf = leaves.find((one) => one.pointer === pointer)
  if (!leaf) return
  if (kind === 'const') return { pointer, const: leaf.value }
  const written = text.trim()
  if (written === '') return
  if (kind === 'max') return Number.isFinite(Number(written)) ? { pointer, max: Number(written) } : undefined
  if (kind === 'url_host') return { pointer, url_host: [written] }
  return { pointer, [kind]: kind === 'prefix' ? text : written }
}

/** The same for people: `path is a path under "notes"`. */
export function constraintWords({ pointer, kind, text }: Choice, leaves: readonly Leaf[]): string {
  const value = leaves.find((leaf) => leaf.pointer === pointer)?.value
  const name = pointer.slice(1) || 'the input'
  if (kind === 'const') return `${name} is exactly ${JSON.stringify(value)}`
  return `${name} ${WORDS[kind]} ${kind === 'max' ? text : JSON.stringify(text)}`
}
