// Names like the one that was typed: to be offered while one types, and where there is none of that name.

interface Named {
  name: string
  title: string
}

const NEAR_MAX = 5

/** Those that hold what was typed, in their name or title; the ones that begin with it first. */
export function suggested<Tool extends Named>(tools: readonly Tool[], typed: string): Tool[] {
  const words = typed.trim().toLowerCase()
  const rank = ({ name, title }: Named) => {
    const plain = name.toLowerCase()
    if (plain === words) return 0
    if (plain.startsWith(words)) return 1
    if (plain.includes(words)) return 2
    return title.toLowerCase().includes(words) ? 3 : Number.POSITIVE_INFINITY
  }
  return tools
    .map((tool) => ({ tool, at: rank(tool) }))
    .filter(({ at }) => at < Number.POSITIVE_INFINITY)
    .sort((one, other) => one.at - other.at || one.tool.name.localeCompare(other.tool.name))
    .map(({ tool }) => tool)
}

/** The few names that may have been meant: those that hold it or are held by it, then those a few letters away. */
export function nearNames(names: readonly string[], typed: string): string[] {
  const words = plain(typed)
  if (words === '') return []
  const far = Math.max(1, Math.floor(words.length / 3))
  const rank = (name: string) => {
    const other = plain(name)
    if (other.includes(words) || (other.length > 2 && words.includes(other))) return 0
    const steps = distance(other, words)
    return steps <= far ? steps : Number.POSITIVE_INFINITY
  }
  return names
    .map((name) => ({ name, at: rank(name) }))
    .filter(({ at }) => at < Number.POSITIVE_INFINITY)
    .sort((one, other) => one.at - other.at || one.name.localeCompare(other.name))
    .slice(0, NEAR_MAX)
    .map(({ name }) => name)
}

/** `writeFile`, `write_file` and `write-file` are one to who remembers a name. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

/** How many letters must be put in, taken out or changed to come from one to the other. */
export function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (let at = 1; at <= one.length; at += 1) {
    const next = [at]
    for (let to = 1; to <= other.length; to += 1) {
      const changed = (row[to - 1] ?? 0) + (one[at - 1] === other[to - 1] ? 0 : 1)
      next.push(Math.min(changed, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}
