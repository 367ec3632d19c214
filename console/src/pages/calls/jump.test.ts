import { describe, expect, it } from 'vitest'
import { isMeantDay, jumpTo } from './jump'

const rows = ['2026-11-15T08:00:00Z', '2026-11-14T23:59:59Z', '2026-11-12T10:00:00Z'].map((created_at) => ({
  created_at,
}))

describe('the way to a day', () => {
  it('ends at its newest call, or at the newest before it', () => {
    expect(jumpTo('2026-11-15', rows, true)).toEqual({ kind: 'there', index: 0 })
    expect(jumpTo('2026-11-14', rows, true)).toEqual({ kind: 'there', index: 1 })
    expect(jumpTo('2026-11-13', rows, true)).toEqual({ kind: 'there', index: 2 })
  })

  it('reads on while there is more, and stops at the oldest or too far back', () => {
    expect(jumpTo('2026-11-01', rows, true)).toEqual({ kind: 'read on' })
    expect(jumpTo('2026-11-01', rows, false)).toEqual({ kind: 'before', index: 2 })
    expect(jumpTo('2026-11-01', rows, true, 3)).toEqual({ kind: 'far' })
  })

  it('begins only when the year is whole', () => {
    expect(isMeantDay('0020-11-01')).toBe(false)
    expect(isMeantDay('2026-11-01')).toBe(true)
    expect(isMeantDay('')).toBe(false)
  })
})
