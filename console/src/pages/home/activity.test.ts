import { describe, expect, it } from 'vitest'
import { activityWords, byHour, partsOf } from './activity'

const now = Date.parse('2026-03-04T12:30:00Z')
const calls = [
  { created_at: '2026-03-04T12:10:00Z', status: 'completed' },
  { created_at: '2026-03-04T12:20:00Z', status: 'rejected', error_code: 'POLICY_DENIED' },
  { created_at: '2026-03-04T12:21:00Z', status: 'failed', error_code: 'POLICY_DENIED' },
  { created_at: '2026-03-04T12:22:00Z', status: 'failed', error_code: 'TIMEOUT' },
  { created_at: '2026-03-03T13:00:00Z', status: 'pending' },
  { created_at: '2026-03-03T12:59:59Z', status: 'completed' },
]

describe('byHour', () => {
  it('puts each call into its hour, by how it came out', () => {
    const hours = byHour(calls, now)
    expect(hours).toHaveLength(24)
    expect(hours[23]).toMatchObject({ completed: 1, failed: 1, refused: 2, open: 0 })
    expect(hours[0]).toMatchObject({ completed: 0, failed: 0, open: 1 })
    expect(activityWords(hours)).toMatch(/^5 calls in the last 24 hours, 1 of them failed, 2 refused; most/)
    expect(activityWords(byHour([], now))).toBe('No calls in the last 24 hours.')
  })
})

describe('partsOf', () => {
  it('counts what is refused apart from what failed, each with the filter that lists it', () => {
    expect(partsOf(calls).map(({ words, count, status }) => [words, count, status])).toEqual([
      ['completed', 2, 'completed'],
      ['failed', 1, 'failed'],
      ['refused', 2, 'refused'],
      ['pending', 1, 'pending'],
    ])
    expect(partsOf([{ created_at: '', status: 'outcome_unknown' }])[0]).toMatchObject({
      words: 'outcome unknown',
      outcome: 'open',
    })
  })
})
