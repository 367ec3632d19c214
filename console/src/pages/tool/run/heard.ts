// What a tool said while it ran, part by part. A stream that broke tells some parts twice, and a late one out of turn.
export interface Part {
  after_seq?: number | null
  part?: number | null
  data: unknown
}

export interface Heard {
  parts: ReadonlyMap<string, string>
  text: string
}

export const NOTHING_HEARD: Heard = { parts: new Map(), text: '' }

/** Enough to read; what came before is in the call's record. */
const CHARS_MAX = 100_000

export function hear(heard: Heard, { after_seq, part, data }: Part): Heard {
  const text = typeof data === 'object' && data !== null && 'text' in data ? data.text : undefined
  const key = `${after_seq ?? 0}:${part ?? 0}`
  if (typeof text !== 'string' || heard.parts.has(key)) return heard
  const parts = new Map(heard.parts).set(key, text)
  const whole = [...parts]
    .sort(([one], [other]) => place(one) - place(other))
    .map(([, words]) => words)
    .join('')
  return { parts, text: whole.slice(-CHARS_MAX) }
}

const PARTS_PER_EVENT = 1e6

function place(key: string): number {
  const [after, part] = key.split(':').map(Number)
  return (after ?? 0) * PARTS_PER_EVENT + (part ?? 0)
}
