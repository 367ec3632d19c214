// The filters of the list: the address's words, and the API's.
import type { Schemas } from '../../api/client'
import { isDenied } from '../../lib/outcome'
import { CALL_STATUSES } from '../../ui/domain'

/** The part of the address that chooses calls. */
export interface Chosen {
  tool?: string
  agent?: string
  /** Who asked, whatever agent did: a principal such as `user:ID`. */
  who?: string
  status?: string
  approval?: string
  source?: string
  error?: string
  since?: string
  until?: string
  run?: string
}

export const FILTERS = [
  'tool',
  'agent',
  'who',
  'status',
  'approval',
  'source',
  'error',
  'since',
  'until',
  'run',
] as const satisfies readonly (keyof Chosen)[]

/** Not a status of the API: what the gate did not let through, by a rule or by a person. */
export const REFUSED = 'refused'

export const STATUSES: readonly string[] = CALL_STATUSES.flatMap((status) =>
  status === 'rejected' ? [REFUSED, status] : [status],
)

export const APPROVALS = [
  'pending',
  'approved',
  'rejected',
  'not_required',
] as const satisfies readonly Schemas['ApprovalStatus'][]

export const SOURCES = [
  'web',
  'agent',
  'api',
  'mcp',
  'cli',
  'workflow',
  'embed',
  'schedule',
] as const satisfies readonly Schemas['Source'][]

export const ERRORS = [
  'VALIDATION_ERROR',
  'TIMEOUT',
  'RATE_LIMIT',
  'POLICY_DENIED',
  'AUTH_REQUIRED',
  'PROVIDER_ERROR',
  'NETWORK_ERROR',
  'SANDBOX_ERROR',
  'UNKNOWN',
] as const satisfies readonly Schemas['ErrorCode'][]

const DENIED: Schemas['ErrorCode'] = 'POLICY_DENIED'
const DAY = /^\d{4}-\d{2}-\d{2}$/
const DAY_MS = 86_400_000

interface Asked {
  tool?: string
  agent?: string
  principal?: string
  status?: Schemas['Status']
  approval?: Schemas['ApprovalStatus']
  source?: Schemas['Source']
  error?: Schemas['ErrorCode']
  since?: string
  until?: string
  run?: string
}

/** What the API is asked. A day as the end is meant with all of its hours. */
export function asked({ who, status, approval, source, error, until, ...same }: Chosen): Asked {
  const isRefused = status === REFUSED
  const words = {
    ...same,
    principal: who,
    status: isRefused ? undefined : status,
    approval,
    source,
    error: isRefused ? DENIED : error,
    until: until && DAY.test(until) ? dayAfter(until) : until,
  }
  // A word that is none of the known ones is left to the server to refuse: it has the words for it.
  return Object.fromEntries(Object.entries(words).filter(([, value]) => value)) as Asked
}

/** To the API a call that was refused has failed. Who asks for failed ones means those that were let through. */
export function isMeant(
  { status, error }: Chosen,
  call: Pick<Schemas['CallSummary'], 'status' | 'error_code'>,
): boolean {
  return status !== 'failed' || error === DENIED || !isDenied(call.status, call.error_code)
}

export function dayAfter(day: string): string {
  const at = Date.parse(`${day}T00:00:00Z`)
  return Number.isNaN(at) ? day : new Date(at + DAY_MS).toISOString().slice(0, 10)
}

/** Only the filters of what is in the address. */
export function filtersOf(search: Chosen & { call?: string }): Chosen {
  return Object.fromEntries(FILTERS.map((name) => [name, search[name]]).filter(([, value]) => value))
}

export function said(word: string): string {
  return word.replaceAll('_', ' ')
}
