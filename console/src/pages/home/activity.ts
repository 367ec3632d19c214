// Calls of the last day by the hour they began in, and by how they ended.

export interface Hour {
  /** Its beginning. */
  at: number
  completed: number
  failed: number
  /** Neither yet: waiting, running, or nobody knows. */
  open: number
}

export const HOURS = 24
const HOUR_MS = 3_600_000

const FAILED: ReadonlySet<string> = new Set(['failed', 'rejected', 'cancelled'])

export function since(now: number): number {
  return Math.floor(now / HOUR_MS) * HOUR_MS - (HOURS - 1) * HOUR_MS
}

export function byHour(calls: readonly { created_at: string; status: string }[], now: number): Hour[] {
  const first = since(now)
  const hours = Array.from({ length: HOURS }, (_, index) => ({
    at: first + index * HOUR_MS,
    completed: 0,
    failed: 0,
    open: 0,
  }))
  for (const { created_at, status } of calls) {
    const hour = hours[Math.floor((Date.parse(created_at) - first) / HOUR_MS)]
    if (hour) hour[status === 'completed' ? 'completed' : FAILED.has(status) ? 'failed' : 'open'] += 1
  }
  return hours
}

export const total = ({ completed, failed, open }: Hour) => completed + failed + open

/** The picture in words. */
export function activityWords(hours: readonly Hour[]): string {
  const all = hours.reduce((count, hour) => count + total(hour), 0)
  if (all === 0) return 'No calls in the last 24 hours.'
  const failed = hours.reduce((count, hour) => count + hour.failed, 0)
  const most = hours.reduce((one, other) => (total(other) > total(one) ? other : one))
  const at = new Date(most.at).toLocaleTimeString('en', { hour: '2-digit', minute: '2-digit', hour12: false })
  const ended = failed === 0 ? 'none of them failed' : `${failed} of them failed or refused`
  return `${all} ${all === 1 ? 'call' : 'calls'} in the last 24 hours, ${ended}; most in the hour from ${at}: ${total(most)}.`
}
