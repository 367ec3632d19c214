import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { modelUseOf, placeOf, spentOf, sumOf, timelineOf, timeOfId } from './rows'

const T0 = Date.UTC(2026, 10, 15, 10)
const at = (second: number) => new Date(T0 + second * 1_000).toISOString()
const idAt = (second: number, tail = '7000-8000-000000000000') => {
  const hex = (T0 + second * 1_000).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-${tail}`
}
const run = (id: string, more: object = {}) => ({
  id,
  title: id,
  state: 'completed',
  created_at: at(0),
  updated_at: at(100),
  ...more,
})
const call = (second: number, more: object = {}) => ({
  id: idAt(second),
  run_id: 'root',
  tool_key: 'echo',
  status: 'completed',
  approval_status: 'not_required',
  created_at: at(second),
  started_at: at(second),
  completed_at: at(second + 1),
  ...more,
})
type View = Parameters<typeof timelineOf>[0]
const view = (more: object) =>
  ({ ...run('root'), steps: [], runs: [], calls: [], unread: [], ...more }) as unknown as View

describe('the rows of a run', () => {
  it('stand within what they belong to, in the order of time', () => {
    const step = { id: idAt(10), run_id: 'root', title: 'Look', created_at: at(10) }
    const timeline = timelineOf(
      view({
        steps: [step],
        runs: [run('child', { parent_run_id: 'root', created_at: at(30), updated_at: at(50) })],
        calls: [call(40, { run_id: 'child' }), call(12, { step_title: 'Look' }), call(5)],
      }),
      [],
      [],
      T0,
    )
    expect(timeline.rows.map(({ kind, depth, title }) => `${kind} ${depth} ${title}`)).toEqual([
      'call 0 echo',
      'step 0 Look',
      'call 1 echo',
      'run 0 child',
      'call 1 echo',
    ])
    // The step lasted as long as its call.
    expect(timeline.rows[1]?.until).toBe(T0 + 13_000)
    expect([timeline.from, timeline.until]).toEqual([T0, T0 + 100_000 > timeline.until ? timeline.until : T0 + 100_000])
  })

  it('wait from being asked to being run, and go on while nobody has decided', () => {
    const waits = call(5, { status: 'pending', approval_status: 'pending', started_at: null, completed_at: null })
    const waited = call(6, { approval_status: 'approved', started_at: at(20), completed_at: at(21) })
    const { rows } = timelineOf(view({ state: 'waiting_human', calls: [waits, waited] }), [], [], T0 + 60_000)
    expect(rows[0]).toMatchObject({ until: undefined, wait: { from: T0 + 5_000, until: undefined } })
    expect(rows[1]).toMatchObject({ wait: { from: T0 + 6_000, until: T0 + 20_000 } })
  })

  it('tell questions, from their id to the event of their answer', () => {
    const question = { id: idAt(7), run_id: 'root', title: 'Which one?', state: 'answered' } as never
    const events = [{ type: 'input.submitted', at: at(9), data: { input_id: idAt(7) } }] as never
    const { rows } = timelineOf(view({}), [question], events, T0)
    expect(rows[0]).toMatchObject({ kind: 'question', from: T0 + 7_000, until: T0 + 9_000 })
  })
})

describe('questions to a model', () => {
  const usage = { input_tokens: 240, cached_tokens: 10, output_tokens: 18 }
  const events = [
    { type: 'model.requested', at: at(1), data: { turn: 0, model: 'play/m' } },
    { type: 'model.completed', at: at(3), data: { turn: 0, kind: 'scripted', usage, cost: '0.5' } },
    { type: 'model.requested', at: at(6), data: { turn: 1, model: 'play/m' } },
    { type: 'model.failed', at: at(7), data: { turn: 1, message: 'busy' } },
    { type: 'model.requested', at: at(8), data: { turn: 2, model: 'play/m' } },
  ] as never

  it('stand among the calls, from being asked to being answered', () => {
    const { rows } = timelineOf(view({ calls: [call(4)] }), [], events, T0)
    expect(rows.map(({ title, state }) => `${title}: ${state}`)).toEqual([
      'Question 1 to play/m: scripted',
      'echo: completed',
      'Question 2 to play/m: failed',
      'Question 3 to play/m: cancelled',
    ])
    expect(rows[0]).toMatchObject({ kind: 'model', from: T0 + 1_000, until: T0 + 3_000 })
  })

  it('add up what they took', () => {
    expect(modelUseOf(events)).toEqual({
      answers: 1,
      read: 240,
      cached: 10,
      written: 18,
      cost: '0.5',
      isScripted: true,
    })
    expect(modelUseOf([])).toBeUndefined()
  })
})

it('an id tells when it was made', () => expect(timeOfId(idAt(3))).toBe(T0 + 3_000))

it('a bar never leaves the whole', () =>
  fc.assert(
    fc.property(
      fc.integer(),
      fc.option(fc.integer(), { nil: undefined }),
      fc.integer(),
      fc.nat(),
      (from, until, start, length) => {
        const { left, width } = placeOf({ from, until }, { from: start, until: start + length })
        expect(left).toBeGreaterThanOrEqual(0)
        expect(left + width).toBeLessThanOrEqual(100.000001)
        expect(width).toBeGreaterThanOrEqual(0)
      },
    ),
  ))

it('costs add up exactly', () => {
  expect(sumOf(['0.1', '0.2', null, undefined, 'x'])).toBe('0.3')
  expect(sumOf(['1', '2.500000'])).toBe('3.5')
  expect(sumOf([])).toBe('0')
})

describe('what a run cost', () => {
  const used = { turns: 2, unanswered: 0, scripted: false, cost: '0.2' } as Parameters<typeof spentOf>[1]
  const told = view({ calls: [call(1, { cost: '0.1' })], runs: [run('child', { kind: 'agent' })] })
  const turns = new Map([['child', [{ cost: '0.03' }, { cost: null }]]]) as unknown as Parameters<typeof spentOf>[2]

  it('is what its calls and the models of it and of the runs under it took', () => {
    const spent = { all: '0.33', calls: '0.1', models: '0.23', bound: undefined, isUnpriced: false }
    expect(spentOf(told, used, turns, false)).toEqual(spent)
  })

  it('is at most or over that where not all is known', () => {
    const unheard = { ...used, unanswered: 1 } as typeof used
    expect(spentOf(told, unheard, turns, false).bound).toBe('at most')
    expect(spentOf(told, unheard, turns, true).bound).toBe('over')
    expect(spentOf(told, used, new Map(), false)).toMatchObject({ all: '0.3', bound: 'over' })
    expect(spentOf(told, { ...used, cost: null } as typeof used, turns, false).isUnpriced).toBe(true)
  })
})
