// How it was decided whether a call may run, in words: one step after the other, as the server took them.
import { said } from './chosen'
import type { Call } from './queries'

export type StepId = 'resolve' | 'validate' | 'authorize' | 'decide' | 'approve' | 'reserve' | 'run'
/** `asked`: a person had to be asked; `skipped`: it never came to that. */
export type StepState = 'passed' | 'asked' | 'stopped' | 'skipped'

export interface TrailLine {
  /** What speaks: a policy, a guardrail, a label, a limit. */
  kind: 'plain' | 'policy' | 'label' | 'guardrail' | 'logged' | 'limit'
  text: string
  by?: string
}

export interface TrailStep {
  id: StepId
  title: string
  state: StepState
  lines: readonly TrailLine[]
  micros?: number
}

/** `decision` of a call as the engine writes it; old records hold less. */
interface Decision {
  revision?: number
  verdict?: string
  member?: string
  policy?: number
  asking?: Asking
  policies?: string[]
  logged?: string[]
  labels?: string[]
  origins?: { names?: string[]; others?: boolean }
  refused_at?: string
  limits?: string[]
  spans?: [string, number][]
}

interface Asking {
  reasons?: { code?: string; text?: string; by?: string | null }[]
  mode?: string
  timeout_s?: number
  approvers?: { need?: number; from?: string[] }[]
  person_required?: boolean
}

const STEPS: readonly StepId[] = ['resolve', 'validate', 'authorize', 'decide', 'approve', 'reserve', 'run']

const TITLES: Record<StepId, string> = {
  resolve: 'Found the tool',
  validate: 'Read the input',
  authorize: 'Checked the arguments',
  decide: 'Decided',
  approve: 'Asked a person',
  reserve: 'Held what it may use',
  run: 'Ran it',
}

type Decided = Pick<
  Call,
  | 'decision'
  | 'status'
  | 'error'
  | 'cached'
  | 'attempts'
  | 'awaits_worker'
  | 'approval_status'
  | 'approval_required'
  | 'approval_decided_by'
  | 'approval_decided_by_name'
  | 'approval_reason'
  | 'grant_id'
  | 'mode'
  | 'started_at'
>

export function trailOf(call: Decided): TrailStep[] {
  const decision = call.decision as Decision
  const stoppedAt = stop(call, decision)
  const reached = stoppedAt ? STEPS.indexOf(stoppedAt) : STEPS.length
  const wasAsked = call.approval_status !== 'not_required'
  return STEPS.filter((id) => id !== 'approve' || wasAsked).map((id) => {
    const place = STEPS.indexOf(id)
    const state: StepState =
      place > reached
        ? 'skipped'
        : place === reached
          ? 'stopped'
          : id === 'decide' && decision.verdict === 'ask'
            ? 'asked'
            : 'passed'
    const span = decision.spans?.find(([step]) => step === id)
    const lines = state === 'skipped' ? [] : linesOf(id, call, decision, state)
    return { id, title: TITLES[id], state, lines, ...(span ? { micros: span[1] } : {}) }
  })
}

/** Where it ended before it ran, or where it waits. */
function stop(call: Decided, decision: Decision): StepId | undefined {
  const at = decision.refused_at as StepId | undefined
  if (at && STEPS.includes(at)) return at
  if (call.status === 'pending' || call.status === 'rejected') return 'approve'
  if (call.status === 'approved') return 'reserve'
  // Taken back while it waited, or never begun.
  if (call.status === 'cancelled' && !call.started_at)
    return call.approval_status === 'not_required' ? 'reserve' : 'approve'
  return undefined
}

function linesOf(id: StepId, call: Decided, decision: Decision, state: StepState): TrailLine[] {
  const refusal: TrailLine[] =
    state === 'stopped' && call.error && id !== 'approve' ? [{ kind: 'plain', text: call.error.message }] : []
  return [...refusal, ...own(id, call, decision, state)]
}

function own(id: StepId, call: Decided, decision: Decision, state: StepState): TrailLine[] {
  const passed = state !== 'stopped'
  switch (id) {
    case 'resolve': {
      const member = decision.member ? `In the caller’s set: ${decision.member}.` : ''
      const revision = decision.revision === undefined ? '' : ` Registry revision ${decision.revision}.`
      return plain(`${member}${revision}`.trim())
    }
    case 'validate':
      return passed ? plain('It fits the tool’s schema; defaults are filled in.') : []
    case 'authorize':
      return passed ? plain('No token and no profile forbids these arguments.') : []
    case 'decide':
      return decided(decision, passed)
    case 'approve':
      return approval(call)
    case 'reserve':
      return [
        ...(decision.limits ?? []).map((text): TrailLine => ({ kind: 'limit', text })),
        ...(passed && !decision.limits?.length ? plain('Within every limit.') : []),
      ]
    case 'run':
      return run(call)
  }
}

function plain(text: string): TrailLine[] {
  return text === '' ? [] : [{ kind: 'plain', text }]
}

const KIND_OF: Readonly<Record<string, TrailLine['kind']>> = {
  policy: 'policy',
  label: 'label',
  guardrail: 'guardrail',
}

function decided(
  { asking, policies, logged, labels, origins, policy, verdict }: Decision,
  passed: boolean,
): TrailLine[] {
  const lines: TrailLine[] = []
  if (labels?.length) {
    const from = [...(origins?.names ?? []), ...(origins?.others ? ['others'] : [])]
    lines.push({
      kind: 'label',
      text: `Seen before it: ${labels.join(', ')} data${from.length > 0 ? `, from ${from.join(', ')}` : ''}.`,
    })
  }
  for (const { code, text, by } of asking?.reasons ?? []) {
    lines.push({
      kind: KIND_OF[code ?? ''] ?? 'plain',
      text: `Asks: ${text ?? said(code ?? '')}`,
      ...(by ? { by } : {}),
    })
  }
  for (const id of policies ?? []) {
    if (!asking?.reasons?.some(({ by }) => by === id)) lines.push({ kind: 'policy', text: 'Permitted by', by: id })
  }
  for (const text of logged ?? []) lines.push({ kind: 'logged', text })
  if (asking) lines.push(...plain(demands(asking)))
  if (passed && verdict === 'allow') lines.push(...plain('Nobody has to be asked.'))
  lines.push(...plain(policy ? `Policies of revision ${policy}.` : 'The default policies.'))
  return lines
}

function demands({ mode, timeout_s, approvers, person_required }: Asking): string {
  const need = Math.max(1, ...(approvers ?? []).map(({ need }) => need ?? 1))
  const from = (approvers ?? []).flatMap(({ from }) => from ?? [])
  const who = `${need === 1 ? 'One person' : `${need} people`}${from.length > 0 ? ` of ${from.join(', ')}` : ''}`
  const patience = timeout_s ? ` within ${timeout_s} s` : ''
  const manner =
    mode === 'continue_on_timeout' && !person_required
      ? '; without an answer it goes on'
      : mode === 'fire_and_continue' && !person_required
        ? '; it goes on meanwhile'
        : ''
  return `${who} must decide${patience}${manner}.`
}

function approval(call: Decided): TrailLine[] {
  const by = call.approval_decided_by_name ?? call.approval_decided_by
  const why = call.approval_reason ? `: ${call.approval_reason}` : ''
  const standing =
    call.grant_id && call.approval_status === 'approved' && !call.approval_required ? ' by a standing grant' : ''
  if (call.approval_status === 'pending') {
    return plain(call.status === 'cancelled' ? 'It was taken back before anybody decided.' : 'Nobody has decided yet.')
  }
  return plain(
    `${call.approval_status === 'approved' ? 'Approved' : 'Rejected'}${by ? ` by ${by}` : ''}${standing}${why}`,
  )
}

function run(call: Decided): TrailLine[] {
  if (call.mode === 'dry_run') return plain('A dry run: nothing was changed.')
  if (call.cached) return plain('Answered from the cache.')
  const attempts = call.attempts > 1 ? ` It took ${call.attempts} attempts.` : ''
  const words: Readonly<Record<string, string>> = {
    completed: 'It completed.',
    failed: 'It failed.',
    running: call.awaits_worker ? 'No worker has taken it yet.' : 'It is running.',
    cancelled: 'It was stopped.',
    outcome_unknown: 'It was cut off: nobody knows whether it happened.',
  }
  return plain(`${words[call.status] ?? said(call.status)}${attempts}`)
}
