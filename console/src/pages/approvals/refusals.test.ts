import { describe, expect, it } from 'vitest'
import type { Me } from '../../app/session'
import type { Card } from './card'
import { bulkRefusals, refusals, SEEN } from './refusals'

const me = (...permissions: string[]): Me => ({
  principal: 'user:1',
  name: 'ann',
  tenant: 'default',
  signed_in_by: 'browser',
  roles: [],
  permissions,
})
const approver = me('approvals.decide')
const CARD: Card = {
  id: 'a',
  state: 'open',
  call_id: 'c',
  call_status: 'pending',
  run_id: 'r',
  tool: 'append_note@1.0.0',
  title: 'Append a note',
  egress_class: 'none',
  risk: 'sensitive',
  principal: 'user:2',
  asked_by: 'ben',
  agent_id: 'g',
  agent: 'scribe',
  reasons: [],
  mode: 'blocking',
  person_required: false,
  need: 1,
  approved: 0,
  approvers: [],
  votes: [],
  round: 1,
  input: {},
  input_shown: '{}',
  input_digest: 'd',
  hidden_characters: [],
  labels: [],
  origins: [],
  reaches: [],
  expires_at: '2026-01-02T00:00:00Z',
  created_at: '2026-01-01T00:00:00Z',
}
const card = (over: Partial<Card> = {}): Card => ({ ...CARD, ...over })

describe('refusals', () => {
  it('lets an approver approve what was looked at', () => {
    expect(refusals.approve(card(), approver, SEEN)).toBeUndefined()
    expect(refusals.reject(card(), approver, SEEN)).toBeUndefined()
  })

  it('says who decided', () => {
    const decided = card({ state: 'rejected', decided_by: 'user:9', decided_by_name: 'cleo' })
    expect(refusals.approve(decided, approver, SEEN)).toBe('Rejected by cleo')
  })

  it('wants the role, but of whoever confirms their own', () => {
    expect(refusals.approve(card(), me(), SEEN)).toMatch(/role approver/)
    const own = card({ principal: 'user:1', agent_id: null })
    expect(refusals.approve(own, me('calls.confirm'), SEEN)).toBeUndefined()
    expect(refusals.approve(card({ principal: 'user:1' }), me('calls.confirm'), SEEN)).toMatch(/role approver/)
  })

  it('wants of whoever approves the permission that they lend', () => {
    const borrowing = card({ borrows: 'tools.tenant.create' })
    expect(refusals.approve(borrowing, approver, SEEN)).toMatch(/tools\.tenant\.create/)
    expect(refusals.reject(borrowing, approver, SEEN)).toBeUndefined()
    const holder = me('approvals.decide', 'grants.standing', 'tools.tenant.create')
    expect(refusals.approve(borrowing, holder, SEEN)).toBeUndefined()
    expect(refusals.standing(borrowing, holder, SEEN, true)).toMatch(/by itself/)
  })

  it('keeps approve off while part of something critical is unseen, and reject on', () => {
    const critical = card({ risk: 'critical' })
    const look = { ...SEEN, unseen: 'below' as const }
    expect(refusals.approve(critical, approver, look)).toMatch(/scroll/)
    expect(refusals.reject(critical, approver, look)).toBeUndefined()
    expect(refusals.approve(card(), approver, look)).toBeUndefined()
  })

  it('keeps approve off under a kill switch and after an own vote', () => {
    expect(refusals.approve(card({ frozen_at: 'x' }), approver, SEEN)).toMatch(/kill switch/)
    const votes = [{ voter: 'user:1', vote: 'approve' as const, at: 'x', counts: true }]
    expect(refusals.approve(card({ need: 2, approved: 1, votes }), approver, SEEN)).toBe('You have approved it: 1 of 2')
  })

  it('grants nothing standing for critical tools unless the tenant says so', () => {
    const admin = me('approvals.decide', 'grants.standing')
    expect(refusals.standing(card(), approver, SEEN, true)).toMatch(/role admin/)
    expect(refusals.standing(card({ risk: 'critical' }), admin, SEEN, false)).toMatch(/by itself/)
    expect(refusals.standing(card({ risk: 'critical' }), admin, SEEN, true)).toBeUndefined()
  })
})

describe('several at once', () => {
  it('are of one tool and not critical', () => {
    expect(bulkRefusals.approve([], approver)).toBe('Nothing is chosen')
    expect(bulkRefusals.approve([card(), card({ id: 'b' })], approver)).toBeUndefined()
    expect(bulkRefusals.approve([card(), card({ tool: 'echo@1.0.0' })], approver)).toMatch(/2 tools/)
    expect(bulkRefusals.approve([card({ risk: 'critical' })], approver)).toMatch(/one by one/)
    expect(bulkRefusals.reject([card({ risk: 'critical' }), card({ tool: 'echo@1.0.0' })], approver)).toBeUndefined()
  })
})
