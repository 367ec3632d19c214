// Why a run of an agent ended before its answer, as its events say, and what a person can change.
import type { RunEvent, RunView } from './queries'

export interface Ending {
  limit: string
  words: string
  used: string
  /** Whose limit it was: what is changed depends on that. */
  of: 'run' | 'agent' | 'unknown'
}

const LIMITS: Readonly<Record<string, string>> = {
  max_iterations: 'questions to the model',
  max_tool_calls: 'calls',
  max_tokens: 'tokens',
  max_budget: 'money',
  max_wall_s: 'seconds',
  max_parallel: 'calls at the same time',
  max_depth: 'runs below runs',
  conversation_bytes: 'bytes of what was said',
}

/** `limits`: the agent's own, as far as they are known. A run has the stricter of those and what it was given. */
export function endingOf(events: readonly RunEvent[], limits: RunView['limits'] | undefined): Ending | undefined {
  const reached = events.findLast(({ type, run_id, data }) => type === 'limit.reached' && isOwn(run_id, data))
  if (!reached) return undefined
  const { limit, most, used } = reached.data as { limit?: unknown; most?: unknown; used?: unknown }
  if (typeof limit !== 'string') return undefined
  const own = (limits as Readonly<Record<string, unknown>> | undefined)?.[limit]
  return {
    limit,
    words: LIMITS[limit] ?? limit,
    used: known(used) && known(most) ? `${used} of ${most}` : known(most) ? `at most ${most}` : '',
    of: limits === undefined || !known(most) ? 'unknown' : String(own) === String(most) ? 'agent' : 'run',
  }
}

function known(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}

/** Those of runs below are told here too, with their id. */
function isOwn(run: string, data: unknown): boolean {
  const { run_id } = data as { run_id?: string }
  return run_id === undefined || run_id === run
}
