import { describe, expect, it } from 'vitest'
import { activityWords, byHour } from './activity'

const now = Date.parse('2026-03-04T12:30:00Z')

describe('byHour', () => {
  it('puts each call into its hour, by how it ended', () => {
    const hours = byHour(
      [
        { created_at: '2026-03-04T12:10:00Z', status: 'completed' },
        { created_at: '2026-03-04T12:20:00Z', status: 'rejected' },
        { created_at: '2026-03-03T13:00:00Z', status: 'pending' },
        { created_at: '2026-03-03T12:59:59Z', status: 'completed' },
      ],
      now,
    )
    expect(hours).toHaveLength(24)
    expect(hours[23]).toMatchObject({ completed: 1, failed: 1, open: 0 })
    expect(hours[0]).toMatchObject({ completed: 0, failed: 0, open: 1 })
    expect(activityWords(hours)).toMatch(/^3 calls in the last 24 hours, 1 of them failed or refused/)
    expect(activityWords(byHour([], now))).toBe('No calls in the last 24 hours.')
  })
})
