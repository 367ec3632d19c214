// A run as rows over time: its steps, calls, questions to models and to people, and the runs under it, each within what it
// belongs to.
import type { AgentRun, Question as Asking, RunEvent, RunRow, RunView, Turn } from './queries'
import { failedQuestions, liveTurn, type Question, type Spoken, spokenOf } from './turns'

/** `unread` is a call without a record. */
export type RowKind = 'run' | 'step' | 'call' | 'unread' | 'question' | 'model'

export interface Span {
  from: number
  /** Absent: it is going on. */
  until: number | undefined
}

export interface TimelineRow extends Span {
  id: string
  kind: RowKind
  depth: number
  title: string
  state: string
  /** Why a call failed. */
  error?: string | null | undefined
  /** Of a question to a model: what came of it. */
  spoken?: Spoken | undefined
  /** Of a call: a person approved it with another input than was asked for. */
  isEdited?: boolean | undefined
  /** The part of it in which it waited for a person. */
  wait: Span | undefined
}

export interface Timeline {
  rows: readonly TimelineRow[]
  /** What the whole width stands for. */
  from: number
  until: number
}

interface Branch {
  row: TimelineRow
  under: Branch[]
}

type Told = Pick<RunView, 'id' | 'steps' | 'runs' | 'calls' | 'unread'> & RunRow

const OPEN = ['pending', 'approved', 'running', 'queued', 'waiting_human', 'open']

/** Ids are UUIDs of version 7: their first 48 bits are the time. */
export function timeOfId(id: string): number {
  return Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)
}

export function timelineOf(
  view: Told,
  questions: readonly Asking[],
  events: readonly RunEvent[],
  now: number,
  /** What the models of its hosted runs were asked, by run. */
  turns: ReadonlyMap<string, readonly Turn[]> = new Map(),
  /** What its own model has said of the answer that it is at. */
  words = '',
): Timeline {
  const runs = new Map([view, ...view.runs].map((run) => [run.id, runBranch(run)]))
  const steps = view.steps.map((step) => ({ step, branch: stepBranch(step, events) }))
  for (const { step, branch } of steps) runs.get(step.run_id)?.under.push(branch)
  const live = OPEN.includes(view.state) ? liveTurn(events, words) : undefined
  const asked = new Map<string, Branch>()
  const edited = new Set<string>()
  for (const run of [view, ...view.runs]) {
    for (const turn of turns.get(run.id) ?? []) {
      const isLive = run.id === view.id && turn.state === 'asked' && turn.turn === live?.turn
      const branch = turnBranch(run, turn, isLive ? live.spoken : spokenOf(turn))
      runs.get(run.id)?.under.push(branch)
      for (const { id, edited: isEdited } of turn.calls) {
        if (id) asked.set(id, branch)
        if (id && isEdited) edited.add(id)
      }
    }
  }
  const calls = new Map<string, Branch>()
  for (const call of [...view.calls].sort(byId)) {
    const branch = callBranch(call, edited.has(call.id))
    calls.set(call.id, branch)
    // A list of calls names the step's title only; the last of that title before the call is the one.
    const step = call.step_title
      ? steps.findLast(({ step }) => step.run_id === call.run_id && step.title === call.step_title && step.id < call.id)
      : undefined
    const parent = step?.branch ?? asked.get(call.id) ?? runs.get(call.run_id) ?? runs.get(view.id)
    parent?.under.push(branch)
  }
  // They have no record: a name that is no tool's, arguments that cannot be read.
  for (const unread of view.unread) {
    const isOf = ({ calls }: Turn) => unread.seq !== undefined && calls.some(({ seq }) => seq === unread.seq)
    const turn = turns.get(unread.run_id)?.find(isOf)
    const parent = runs.get(unread.run_id) ?? runs.get(view.id)
    const of = turn && parent?.under.find(({ row }) => row.id === turnId(unread.run_id, turn))
    ;(of ?? parent)?.under.push(unreadBranch(unread))
  }
  for (const question of questions) {
    const parent = runs.get(question.run_id) ?? runs.get(view.id)
    parent?.under.push(questionBranch(question, events))
  }
  // A tool that asks a model by itself tells of it in its own call; what is known of a hosted run stands there already.
  const hosted = turns.get(view.id)
  for (const { call_id, branch } of modelBranches(view, events, hosted, live)) {
    const parent = calls.get(call_id ?? '') ?? runs.get(view.id)
    parent?.under.push(branch)
  }
  for (const run of view.runs) {
    const branch = runs.get(run.id)
    const parent = runs.get(run.parent_run_id ?? '') ?? runs.get(view.id)
    if (branch && parent !== branch) parent?.under.push(branch)
  }
  const root = runs.get(view.id)
  const rows = root ? flat(root, 0) : []
  const isOpen = OPEN.includes(view.state)
  const from = Date.parse(view.created_at)
  // Clocks differ: nothing begins after the end of what is shown.
  const ends = rows.map(({ from: begun, until }) => Math.max(begun, until ?? now))
  const end = Math.max(isOpen ? now : 0, from + 1, ...ends)
  return { rows: rows.slice(1), from, until: end }
}

function byId(one: { id: string }, other: { id: string }): number {
  return one.id < other.id ? -1 : 1
}

function flat({ row, under }: Branch, depth: number): TimelineRow[] {
  const inside = [...under].sort((one, other) => one.row.from - other.row.from || byId(one.row, other.row))
  const rows = inside.flatMap((branch) => flat(branch, depth + 1))
  // A step says when it began; it ends with the last thing in it.
  const ends = rows.map(({ until }) => until)
  const isGoingOn = ends.includes(undefined)
  const until =
    row.kind === 'step' && row.state !== 'ended'
      ? isGoingOn
        ? undefined
        : Math.max(row.from, ...ends.map((end) => end ?? 0))
      : row.until
  return [{ ...row, until, depth: depth - 1 }, ...rows]
}

function branch(row: Omit<TimelineRow, 'depth'>): Branch {
  return { row: { ...row, depth: 0 }, under: [] }
}

function runBranch(run: RunRow): Branch {
  const until = OPEN.includes(run.state) ? undefined : Date.parse(run.updated_at)
  return branch({
    id: run.id,
    kind: 'run',
    title: run.title ?? run.agent_name ?? 'Run',
    state: run.state,
    from: Date.parse(run.created_at),
    until,
    wait: undefined,
  })
}

function stepBranch(step: RunView['steps'][number], events: readonly RunEvent[]): Branch {
  const end = events.find(
    ({ type, data }) =>
      (type === 'step.completed' || type === 'step.failed') && (data as { step_id?: unknown }).step_id === step.id,
  )
  return branch({
    id: step.id,
    kind: 'step',
    title: step.title,
    state: end ? 'ended' : '',
    from: Date.parse(step.created_at),
    until: end && Date.parse(end.at),
    wait: undefined,
  })
}

function callBranch(call: RunView['calls'][number], isEdited: boolean): Branch {
  const from = Date.parse(call.created_at)
  const started = call.started_at ? Date.parse(call.started_at) : undefined
  const until = call.completed_at ? Date.parse(call.completed_at) : OPEN.includes(call.status) ? undefined : from
  const wait = call.approval_status === 'not_required' ? undefined : { from, until: started ?? until }
  return branch({
    id: call.id,
    kind: 'call',
    title: call.tool_key,
    state: call.status,
    error: call.error_code,
    isEdited,
    from,
    until,
    wait,
  })
}

function unreadBranch({ run_id, tool, seq, code, reason, at }: RunView['unread'][number]): Branch {
  const from = Date.parse(at)
  return branch({
    id: `${run_id} unread ${seq ?? at}`,
    kind: 'unread',
    title: tool,
    state: 'failed',
    error: `${code} ${reason}`,
    from,
    until: from,
    wait: undefined,
  })
}

function questionBranch(question: Asking, events: readonly RunEvent[]): Branch {
  const from = timeOfId(question.id)
  const end = events.find(
    ({ type, data }) =>
      ['input.submitted', 'input.expired', 'input.cancelled'].includes(type) &&
      Object.values(data as Record<string, unknown>).includes(question.id),
  )
  const until = question.state === 'open' ? undefined : end ? Date.parse(end.at) : from
  return branch({
    id: question.id,
    kind: 'question',
    title: question.title,
    state: question.state,
    from,
    until,
    wait: { from, until },
  })
}

const turnId = (run: string, { turn }: Turn) => `${run} turn ${turn}`

/** A question to the model of a run with what it answered. */
function turnBranch(run: RunRow, turn: Turn, spoken: Spoken): Branch {
  const from = Date.parse(turn.asked_at)
  const until = turn.answered_at ? Date.parse(turn.answered_at) : unansweredUntil(run, from)
  const state = turn.state === 'erased' ? 'erased' : turn.scripted ? 'scripted' : 'completed'
  return branch({
    id: turnId(run.id, turn),
    kind: 'model',
    title: `Turn ${turn.turn + 1}`,
    state: turn.state === 'asked' ? (until === undefined ? 'running' : 'cancelled') : state,
    spoken,
    from,
    until,
    wait: undefined,
  })
}

/** A question that was never answered ends with its run. */
function unansweredUntil(run: RunRow, from: number): number | undefined {
  return OPEN.includes(run.state) ? undefined : Math.max(from, Date.parse(run.updated_at))
}

interface Asked {
  call_id: string | null | undefined
  branch: Branch
}

/** Questions to models by the run's own events: those that tools ask, those that failed, and the one under way. */
function modelBranches(
  view: Told,
  events: readonly RunEvent[],
  hosted: readonly Turn[] | undefined,
  live: Question | undefined,
): Asked[] {
  const ofTools = new Map<string, Asked>()
  for (const { type, at, data, call_id } of events) {
    if (hosted && !call_id) continue
    const { turn, model, kind } = data as { turn?: unknown; model?: unknown; kind?: unknown }
    if (typeof turn !== 'number') continue
    const id = `${view.id} ${call_id ?? ''} model ${turn}`
    if (type === 'model.requested') {
      const from = Date.parse(at)
      const until = unansweredUntil(view, from)
      const state = until === undefined ? 'running' : 'cancelled'
      const title = `Question ${turn + 1} to ${typeof model === 'string' ? model : 'the model'}`
      const row = branch({ id, kind: 'model', title, state, from, until, wait: undefined })
      ofTools.set(id, { call_id, branch: row })
    }
    const asked = ofTools.get(id)?.branch
    if (!asked || !['model.completed', 'model.failed'].includes(type)) continue
    asked.row.until = Date.parse(at)
    asked.row.state = type === 'model.failed' ? 'failed' : kind === 'scripted' ? 'scripted' : 'completed'
  }
  if (!hosted) return [...ofTools.values()]
  const own = failedQuestions(events).map(({ turn, from, until, spoken }) => ({
    call_id: undefined,
    branch: branch({
      id: `${view.id} failed ${from}`,
      kind: 'model',
      title: `Turn ${turn + 1}`,
      state: 'failed',
      spoken,
      from,
      until,
      wait: undefined,
    }),
  }))
  if (live && !hosted.some(({ turn }) => turn === live.turn)) {
    const title = `Turn ${live.turn + 1}`
    const row = { kind: 'model' as const, title, state: 'running', spoken: live.spoken, from: live.from }
    own.push({
      call_id: undefined,
      branch: branch({ id: `${view.id} turn ${live.turn}`, ...row, until: undefined, wait: undefined }),
    })
  }
  return [...ofTools.values(), ...own]
}

export interface ModelUse {
  answers: number
  read: number
  cached: number
  written: number
  cost: string
  isScripted: boolean
}

/** What the run's model took, by its events; absent: it asked none. */
export function modelUseOf(events: readonly RunEvent[]): ModelUse | undefined {
  const answers = events.filter(({ type }) => type === 'model.completed').map(({ data }) => data as Answered)
  if (answers.length === 0) return undefined
  const sum = (member: keyof NonNullable<Answered['usage']>) =>
    answers.reduce((total, { usage }) => total + (usage?.[member] ?? 0), 0)
  return {
    answers: answers.length,
    read: sum('input_tokens'),
    cached: sum('cached_tokens'),
    written: sum('output_tokens'),
    cost: sumOf(answers.map(({ cost }) => cost)),
    isScripted: answers.some(({ kind }) => kind === 'scripted'),
  }
}

interface Answered {
  usage?: { input_tokens?: number; cached_tokens?: number; output_tokens?: number }
  cost?: string
  kind?: string
}

export interface Spent {
  all: string
  calls: string
  models: string
  /** What was asked and not heard counts as what was held for it; what is not read counts as nothing. */
  bound: 'over' | 'at most' | undefined
  /** Its own model was asked, and nobody wrote what that costs. */
  isUnpriced: boolean
}

/**
 * What counts against the run's budget: its calls, its model's answers, and both of the runs under it. What a tool's own
 * questions to a model cost is in its call.
 */
export function spentOf(
  { id, calls, runs }: Pick<RunView, 'id' | 'calls' | 'runs'>,
  own: AgentRun['model_use'] | undefined,
  turns: ReadonlyMap<string, readonly Turn[]>,
  isCut: boolean,
): Spent {
  const below = runs.filter((run) => run.kind === 'agent' && run.id !== id)
  const ofCalls = sumOf(calls.map(({ cost }) => cost))
  const ofModels = sumOf([own?.cost, ...below.flatMap((run) => turns.get(run.id) ?? []).map(({ cost }) => cost)])
  const isPartial = isCut || below.some((run) => !turns.has(run.id))
  return {
    all: sumOf([ofCalls, ofModels]),
    calls: ofCalls,
    models: ofModels,
    bound: isPartial ? 'over' : own?.cost && own.unanswered > 0 ? 'at most' : undefined,
    isUnpriced: own !== undefined && own.turns > 0 && !own.scripted && !own.cost,
  }
}

/** Where a span lies within the whole, in hundredths; what lasted no time is still to be seen. */
export function placeOf(
  span: Span,
  { from, until }: Pick<Timeline, 'from' | 'until'>,
): { left: number; width: number } {
  const whole = Math.max(1, until - from)
  const share = (at: number) => Math.min(100, Math.max(0, ((at - from) / whole) * 100))
  const left = share(span.from)
  return { left, width: Math.max(0, share(span.until ?? until) - left) }
}

const MICROS = 1_000_000n

/** The sum of decimal texts, without the errors of floating point. */
export function sumOf(amounts: readonly (string | null | undefined)[]): string {
  const total = amounts.reduce((sum, amount) => sum + microsOf(amount ?? ''), 0n)
  const whole = total / MICROS
  const rest = (total % MICROS).toString().padStart(6, '0').replace(/0+$/, '')
  return rest === '' ? whole.toString() : `${whole}.${rest}`
}

function microsOf(amount: string): bigint {
  const [, whole = '0', rest = ''] = /^(\d+)(?:\.(\d{1,6}))?$/.exec(amount) ?? []
  return BigInt(whole) * MICROS + BigInt(rest.padEnd(6, '0'))
}
