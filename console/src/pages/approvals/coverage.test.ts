import { describe, expect, it } from 'vitest'
import { above, firstUnseen, seen } from './coverage'

describe('what was on the screen', () => {
  it('is all of it only without a gap', () => {
    let intervals = seen([], [0, 300])
    expect(firstUnseen(intervals, 1000)).toBe(300)
    intervals = seen(intervals, [700, 1000])
    expect(firstUnseen(intervals, 1000)).toBe(300)
    intervals = seen(intervals, [299, 701])
    expect(firstUnseen(intervals, 1000)).toBeUndefined()
  })

  it('begins at the top', () => {
    expect(firstUnseen([], 10)).toBe(0)
    expect(firstUnseen(seen([], [40, 900]), 900)).toBe(0)
    expect(seen([], [5, 5])).toEqual([])
  })

  it('is forgotten below what opened', () => {
    expect(above([[0, 500]], 200)).toEqual([[0, 200]])
    expect(
      above(
        [
          [0, 100],
          [300, 500],
        ],
        200,
      ),
    ).toEqual([[0, 100]])
  })
})
