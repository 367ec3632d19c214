import { describe, expect, it } from 'vitest'
import { freshOf, statusOf, withChanges } from './fresh'
import type { CallRow } from './queries'

const row = (id: string, status: CallRow['status'] = 'completed') => ({ id, status }) as CallRow

describe('what is new', () => {
  it('counts what is above the first row, and says when there may be more', () => {
    expect(freshOf([row('4'), row('3'), row('2')], [row('2'), row('1')])).toMatchObject({ count: 2, isMore: false })
    expect(freshOf([row('4'), row('3')], [row('1')])).toMatchObject({ count: 2, isMore: true })
    expect(freshOf([row('1')], [row('1')])).toMatchObject({ count: 0, isMore: false })
    expect(freshOf([row('1')], [])).toMatchObject({ count: 1 })
    expect(freshOf(undefined, [row('1')])).toMatchObject({ count: 0 })
  })
})

describe('rows that are there', () => {
  it('stand as the newest page or an event says, and never go back', () => {
    const rows = [row('3', 'running'), row('2', 'pending'), row('1', 'completed')]
    const changed = new Map([['3', row('3', 'completed')]])
    const told = new Map<string, CallRow['status']>([
      ['3', 'running'],
      ['2', 'running'],
      ['1', 'running'],
    ])
    expect(withChanges(rows, changed, told).map(({ status }) => status)).toEqual(['completed', 'running', 'completed'])
    expect(withChanges(rows, new Map(), new Map())).toBe(rows)
  })

  it('fail in the way the event tells', () => {
    expect(statusOf({ type: 'tool.failed', data: { status: 'rejected' } as never })).toBe('rejected')
    expect(statusOf({ type: 'tool.failed', data: {} as never })).toBe('failed')
    expect(statusOf({ type: 'step.started', data: {} as never })).toBeUndefined()
  })
})
