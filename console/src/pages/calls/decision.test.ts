import { describe, expect, it } from 'vitest'
import { trailOf } from './decision'

const call = (more: object) =>
  ({
    status: 'completed',
    cached: false,
    attempts: 1,
    approval_status: 'not_required',
    approval_required: false,
    mode: 'execute',
    started_at: '2026-11-15T10:00:00.000Z',
    decision: { revision: 6, verdict: 'allow', member: 'user-facing', policy: 0 },
    ...more,
  }) as unknown as Parameters<typeof trailOf>[0]

const states = (trail: ReturnType<typeof trailOf>) => trail.map(({ id, state }) => `${id} ${state}`)

describe('the trail of a decision', () => {
  it('tells every step of a call that ran', () => {
    const trail = trailOf(
      call({
        decision: {
          revision: 6,
          verdict: 'allow',
          member: 'user-facing',
          policy: 3,
          policies: ['p1'],
          spans: [['resolve', 58]],
        },
      }),
    )
    expect(states(trail)).toEqual([
      'resolve passed',
      'validate passed',
      'authorize passed',
      'decide passed',
      'reserve passed',
      'run passed',
    ])
    expect(trail[0]).toMatchObject({
      micros: 58,
      lines: [{ text: 'In the caller’s set: user-facing. Registry revision 6.' }],
    })
    expect(trail[3]?.lines).toContainEqual({ kind: 'policy', text: 'Permitted by', by: 'p1' })
  })

  it('stops where the call was refused, with the reason there', () => {
    const trail = trailOf(
      call({
        status: 'failed',
        error: { code: 'VALIDATION_ERROR', message: 'no' },
        decision: { verdict: 'deny', refused_at: 'validate' },
      }),
    )
    expect(states(trail)).toEqual([
      'resolve passed',
      'validate stopped',
      'authorize skipped',
      'decide skipped',
      'reserve skipped',
      'run skipped',
    ])
    expect(trail[1]?.lines).toEqual([{ kind: 'plain', text: 'no' }])
  })

  it('names what asks, by whom, and what was only logged', () => {
    const asking = {
      reasons: [
        { code: 'write', text: 'it changes things outside' },
        { code: 'policy', text: 'refunds need two', by: 'refunds' },
        { code: 'label', text: 'private data', by: 'exfiltration' },
        { code: 'guardrail', text: 'a key', by: 'secrets' },
      ],
      mode: 'blocking',
      approvers: [{ need: 2, from: ['role:approver'] }],
      person_required: true,
    }
    const trail = trailOf(
      call({
        status: 'pending',
        approval_status: 'pending',
        decision: { verdict: 'ask', asking, policies: ['refunds'], logged: ['x would have denied'] },
      }),
    )
    expect(states(trail)).toEqual([
      'resolve passed',
      'validate passed',
      'authorize passed',
      'decide asked',
      'approve stopped',
      'reserve skipped',
      'run skipped',
    ])
    const lines = trail[3]?.lines ?? []
    expect(lines.map(({ kind }) => kind)).toEqual(['plain', 'policy', 'label', 'guardrail', 'logged', 'plain', 'plain'])
    expect(lines).toContainEqual({ kind: 'plain', text: '2 people of role:approver must decide.' })
    expect(trail[4]?.lines).toEqual([{ kind: 'plain', text: 'Nobody has decided yet.' }])
  })

  it('says who decided and why', () => {
    const trail = trailOf(
      call({
        status: 'rejected',
        approval_status: 'rejected',
        approval_decided_by: 'user:1',
        approval_decided_by_name: 'Ben',
        approval_reason: 'not today',
        decision: { verdict: 'ask' },
      }),
    )
    expect(trail.find(({ id }) => id === 'approve')?.lines).toEqual([
      { kind: 'plain', text: 'Rejected by Ben: not today' },
    ])
  })
})
