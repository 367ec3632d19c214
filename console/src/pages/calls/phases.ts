// Where a call's time went: waiting for a person, waiting for its turn, running.
import type { CallEvent } from './queries'

export interface Phase {
  kind: 'queued' | 'waited' | 'ran'
  ms: number
}

const WORDS: Record<Phase['kind'], string> = { queued: 'queued', waited: 'waited for a person', ran: 'ran' }

export function phaseWords(kind: Phase['kind']): string {
  return WORDS[kind]
}

interface Timed {
  created_at: string
  started_at?: string | null | undefined
  completed_at?: string | null | undefined
  approval_status: string
}

/** The phases in their order; a phase that is going on lasts until `now`. */
export function phasesOf(call: Timed, events: readonly Pick<CallEvent, 'type' | 'at'>[], now: number): Phase[] {
  const created = Date.parse(call.created_at)
  const ended = call.completed_at ? Date.parse(call.completed_at) : now
  const started = call.started_at ? Date.parse(call.started_at) : ended
  const at = (...types: string[]) => {
    const found = events.find(({ type }) => types.includes(type))
    return found && Date.parse(found.at)
  }
  const asked =
    call.approval_status === 'not_required' ? undefined : (at('approval.requested', 'tool.needs_approval') ?? created)
  const decided = at('approval.decided', 'tool.approved', 'approval.rejected', 'approval.expired') ?? started
  const marks: [Phase['kind'], number, number][] =
    asked === undefined
      ? [['queued', created, started]]
      : [
          ['queued', created, asked],
          ['waited', asked, Math.min(decided, started)],
          ['queued', Math.min(decided, started), started],
        ]
  if (call.started_at) marks.push(['ran', started, ended])
  return marks.map(([kind, from, until]) => ({ kind, ms: Math.max(0, until - from) })).filter(({ ms }) => ms > 0)
}
