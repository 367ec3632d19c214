// Times as people say them; the exact one is always at hand.
const STEPS: readonly (readonly [limit: number, seconds: number, unit: Intl.RelativeTimeFormatUnit])[] = [
  [60, 1, 'second'],
  [3_600, 60, 'minute'],
  [86_400, 3_600, 'hour'],
  [30 * 86_400, 86_400, 'day'],
  [365 * 86_400, 30 * 86_400, 'month'],
  [Number.POSITIVE_INFINITY, 365 * 86_400, 'year'],
]

const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })

export function relative(at: Date, now: Date): string {
  const seconds = (at.getTime() - now.getTime()) / 1000
  if (Math.abs(seconds) < 5) return 'now'
  const [, size, unit] = STEPS.find(([limit]) => Math.abs(seconds) < limit) ?? [0, 1, 'second' as const]
  return words.format(Math.trunc(seconds / size), unit)
}

/** `2026-03-04 05:06:07 UTC` */
export function exact(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`
}

/** How long something took: `340 ms`, `2.4 s`, `3 min 20 s`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
