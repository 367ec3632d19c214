// Calls of the last day by the hour they began in, and by how they came out.
import { type Outcome, outcomeOf } from '../../lib/outcome'

export interface Hour extends Record<Outcome, number> {
  /** Its beginning. */
  at: number
}

interface Call {
  created_at: string
  status: string
  error_code?: string | null
}

export const OUTCOMES = ['completed', 'failed', 'refused', 'cancelled', 'open'] as const satisfies readonly Outcome[]

export const HOURS = 24
const HOUR_MS = 3_600_000

export function since(now: number): number {
  return Math.floor(now / HOUR_MS) * HOUR_MS - (HOURS - 1) * HOUR_MS
}

export function byHour(calls: readonly Call[], now: number): Hour[] {
  const first = since(now)
  const hours = Array.from({ length: HOURS }, (_, index) => ({
    at: first + index * HOUR_MS,
    completed: 0,
    failed: 0,
    refused: 0,
    cancelled: 0,
    open: 0,
  }))
  for (const call of calls) {
    const hour = hours[Math.floor((Date.parse(call.created_at) - first) / HOUR_MS)]
    if (hour) hour[outcomeOf(call)] += 1
  }
  return hours
}

/** A part of the calls with the filter that lists exactly them. */
export interface Part {
  outcome: Outcome
  words: string
  count: number
  /** Of the list's filter. */
  status: string
}

/** What came of how many. The open ones are told by their status: what waits, what runs, what nobody knows. */
export function partsOf(calls: readonly Call[]): Part[] {
  const parts = new Map<string, Part>()
  for (const call of calls) {
    const outcome = outcomeOf(call)
    const status = outcome === 'open' ? call.status : outcome
    const part = parts.get(status) ?? { outcome, words: status.replaceAll('_', ' '), count: 0, status }
    parts.set(status, { ...part, count: part.count + 1 })
  }
  return [...parts.values()].sort(
    (one, other) =>
      OUTCOMES.indexOf(one.outcome) - OUTCOMES.indexOf(other.outcome) || one.words.localeCompare(other.words),
  )
}

export const total = (hour: Hour) => OUTCOMES.reduce((count, outcome) => count + hour[outcome], 0)

/** The picture in words. */
export function activityWords(hours: readonly Hour[]): string {
  const sum = (outcome: Outcome) => hours.reduce((count, hour) => count + hour[outcome], 0)
  const all = hours.reduce((count, hour) => count + total(hour), 0)
  if (all === 0) return 'No calls in the last 24 hours.'
  const most = hours.reduce((one, other) => (total(other) > total(one) ? other : one))
  const at = new Date(most.at).toLocaleTimeString('en', { hour: '2-digit', minute: '2-digit', hour12: false })
  const ended = [
    sum('failed') === 0 ? 'none of them failed' : `${sum('failed')} of them failed`,
    sum('refused') === 0 ? '' : `${sum('refused')} refused`,
  ].filter(Boolean)
  return `${all} ${all === 1 ? 'call' : 'calls'} in the last 24 hours, ${ended.join(', ')}; most in the hour from ${at}: ${total(most)}.`
}
