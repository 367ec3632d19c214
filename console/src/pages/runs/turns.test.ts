import { expect, it } from 'vitest'
import type { RunEvent, Turn } from './queries'
import { timelineOf } from './rows'
import { failedQuestions, hear, liveTurn, NOTHING_HEARD, spokenOf } from './turns'

const at = (second: number) => new Date(Date.UTC(2026, 10, 15, 10, 0, second)).toISOString()
const event = (type: string, second: number, data: object, call_id?: string) =>
  ({ type, at: at(second), data, call_id }) as unknown as RunEvent
const turn = (number: number, more: object = {}) =>
  ({
    turn: number,
    state: 'answered',
    model: 'm',
    scripted: false,
    text: `Said ${number}.`,
    is_cut: false,
    calls: [],
    input_tokens: 1240,
    cached_tokens: 0,
    output_tokens: 18,
    asked_at: at(number * 10),
    answered_at: at(number * 10 + 2),
    ...more,
  }) as unknown as Turn

it('a turn says what it took', () => {
  expect(spokenOf(turn(0)).took).toBe('1,240 tokens in, 18 out')
  const dear = turn(0, { cached_tokens: 1000, cost: '0.01', stop: 'length' })
  expect(spokenOf(dear).took).toBe('1,240 tokens in (1,000 cached), 18 out, cost 0.01, cut off at its limit')
  expect(spokenOf(turn(0, { state: 'asked' })).took).toBe('')
})

it('what a model says is heard until its answer is there', () => {
  const asked = event('model.requested', 1, { turn: 1, model: 'play/m' })
  const said = (part: number, text: string) => ({ ...event('model.delta', 2, { text }), after_seq: 7, part })
  const parts = [said(1, 'Three '), said(2, 'lamps')]
  // After a break they come again.
  const { words } = [asked, ...parts, ...parts].reduce(hear, NOTHING_HEARD)
  expect(words).toBe('Three lamps')
  expect(liveTurn([asked], words)).toMatchObject({ turn: 1, spoken: { text: 'Three lamps', isLive: true } })
  const answered = event('model.completed', 4, { turn: 1 })
  expect([asked, ...parts, answered].reduce(hear, NOTHING_HEARD).words).toBe('')
  expect(liveTurn([asked, answered], '')).toBeUndefined()
  // A tool that asks a model by itself is none of the run's own.
  expect(liveTurn([event('model.requested', 1, { turn: 0 }, 'c')], '')).toBeUndefined()
})

it('a question that failed is told from the log, and the next one of that number is another', () => {
  const events = [
    event('model.requested', 1, { turn: 0, model: 'play/m' }),
    event('model.failed', 2, { turn: 0, model: 'play/m', message: 'too busy' }),
    event('model.requested', 3, { turn: 0, model: 'play/m' }),
  ]
  expect(failedQuestions(events)).toMatchObject([
    { turn: 0, from: Date.parse(at(1)), until: Date.parse(at(2)), spoken: { text: 'too busy' } },
  ])
})

const call = (id: string, second: number, run_id = 'root') => ({
  id,
  run_id,
  tool_key: `tool-${id}`,
  status: 'completed',
  approval_status: 'not_required',
  created_at: at(second),
  started_at: at(second),
  completed_at: at(second + 1),
})
const run = (id: string, more: object = {}) => ({
  id,
  title: id,
  state: 'completed',
  created_at: at(0),
  updated_at: at(50),
  ...more,
})
const lines = (timeline: ReturnType<typeof timelineOf>) =>
  timeline.rows.map(({ depth, title, state }) => `${' '.repeat(depth)}${title} ${state}`)

it('calls stand below the turn that asked for them, also in the runs of agents that were asked', () => {
  const view = {
    ...run('root'),
    steps: [],
    runs: [run('below', { parent_run_id: 'root', created_at: at(13) })],
    calls: [call('a', 3), call('b', 13), call('c', 16, 'below')],
    unread: [
      { run_id: 'root', tool: 'no-such', seq: 2, code: 'POLICY_DENIED', reason: 'not_found', at: at(14) },
      { run_id: 'root', tool: 'lost', code: 'POLICY_DENIED', reason: 'not_found', at: at(40) },
    ],
  } as unknown as Parameters<typeof timelineOf>[0]
  const turns = new Map([
    [
      'root',
      [turn(0, { calls: [{ id: 'a', edited: true }] }), turn(1, { calls: [{ id: 'b', seq: 1 }, { seq: 2 }] }), turn(2)],
    ],
    ['below', [turn(1.4, { turn: 0, scripted: true, calls: [{ id: 'c' }] })]],
  ])
  const timeline = timelineOf(view, [], [], 0, turns)
  expect(lines(timeline)).toEqual([
    'Turn 1 completed',
    ' tool-a completed',
    'Turn 2 completed',
    ' tool-b completed',
    ' no-such failed',
    'below completed',
    ' Turn 1 scripted',
    '  tool-c completed',
    'Turn 3 completed',
    'lost failed',
  ])
  expect(timeline.rows[1]).toMatchObject({ isEdited: true })
})

it('the turn under way is there once, whether or not it was read already', () => {
  const view = {
    ...run('root', { state: 'running' }),
    steps: [],
    runs: [],
    calls: [],
    unread: [],
  } as unknown as Parameters<typeof timelineOf>[0]
  const events = [event('model.requested', 20, { turn: 1 })]
  const asked = turn(1, { state: 'asked', asked_at: at(20), answered_at: undefined, text: '' })
  for (const known of [[turn(0)], [turn(0), asked]]) {
    const { rows } = timelineOf(view, [], events, Date.parse(at(22)), new Map([['root', known]]), 'Well')
    expect(rows.map(({ title, state, spoken }) => [title, state, spoken?.text])).toEqual([
      ['Turn 1', 'completed', 'Said 0.'],
      ['Turn 2', 'running', 'Well'],
    ])
  }
})
