import { expect, it } from 'vitest'
import { phasesOf } from './phases'

const at = (second: number) => new Date(Date.UTC(2026, 10, 15, 10, 0, second)).toISOString()
const now = Date.parse(at(60))

it('a call that nobody was asked about is queued and runs', () => {
  const call = { created_at: at(0), started_at: at(1), completed_at: at(3), approval_status: 'not_required' }
  expect(phasesOf(call, [], now)).toEqual([
    { kind: 'queued', ms: 1_000 },
    { kind: 'ran', ms: 2_000 },
  ])
})

it('a call that asked waits from its question to the decision', () => {
  const call = { created_at: at(0), started_at: at(12), completed_at: at(20), approval_status: 'approved' }
  const events = [
    { type: 'approval.requested', at: at(0) },
    { type: 'approval.decided', at: at(10) },
  ] as const
  expect(phasesOf(call, events, now)).toEqual([
    { kind: 'waited', ms: 10_000 },
    { kind: 'queued', ms: 2_000 },
    { kind: 'ran', ms: 8_000 },
  ])
})

it('what is going on lasts until now', () => {
  const waits = { created_at: at(0), approval_status: 'pending' }
  expect(phasesOf(waits, [], now)).toEqual([{ kind: 'waited', ms: 60_000 }])
  const runs = { created_at: at(0), started_at: at(0), approval_status: 'not_required' }
  expect(phasesOf(runs, [], now)).toEqual([{ kind: 'ran', ms: 60_000 }])
})
