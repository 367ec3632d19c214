import { describe, expect, it } from 'vitest'
import { asked, dayAfter, filtersOf, isMeant, STATUSES } from './chosen'

describe('what the API is asked', () => {
  it('means a last day with all of its hours', () => {
    expect(asked({ since: '2026-11-15', until: '2026-11-15' })).toEqual({ since: '2026-11-15', until: '2026-11-16' })
    expect(asked({ until: '2026-11-15T12:00:00Z' })).toEqual({ until: '2026-11-15T12:00:00Z' })
    expect(dayAfter('2026-12-31')).toBe('2027-01-01')
  })

  it('names people as the API does and leaves out what is not chosen', () => {
    expect(asked({ who: 'user:1', status: '', tool: 'echo' })).toEqual({ principal: 'user:1', tool: 'echo' })
  })
})

it('of the address only the filters choose', () => {
  expect(filtersOf({ tool: 'echo', status: '', call: 'x' })).toEqual({ tool: 'echo' })
})

describe('refused and failed', () => {
  it('asks for what was refused by its reason, since the API knows no such status', () => {
    expect(STATUSES).toContain('refused')
    expect(asked({ status: 'refused', tool: 'echo' })).toEqual({ tool: 'echo', error: 'POLICY_DENIED' })
  })

  it('means by failed only what was let through', () => {
    const denied = { status: 'failed', error_code: 'POLICY_DENIED' } as const
    expect(isMeant({ status: 'failed' }, denied)).toBe(false)
    expect(isMeant({ status: 'failed' }, { status: 'failed', error_code: 'TIMEOUT' })).toBe(true)
    expect(isMeant({ status: 'failed', error: 'POLICY_DENIED' }, denied)).toBe(true)
    expect(isMeant({}, denied)).toBe(true)
  })
})
