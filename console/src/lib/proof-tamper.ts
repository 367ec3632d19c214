// For a demonstration: one byte of an entry becomes another, as somebody with access to the database could write it.

/** A place in the entry worth changing, and what it becomes. */
export interface Tampering {
  entry: string
  at: number
  was: string
  becomes: string
}

/** Changes one character of the named tool, where people see at once that the record now says something else. */
export function tampered(entry: string): Tampering {
  const member = entry.indexOf('"tool":"')
  const at = member >= 0 ? member + '"tool":"'.length : Math.floor(entry.length / 2)
  const was = entry.charAt(at)
  const becomes = was === 'x' ? 'y' : 'x'
  return { entry: entry.slice(0, at) + becomes + entry.slice(at + 1), at, was, becomes }
}
