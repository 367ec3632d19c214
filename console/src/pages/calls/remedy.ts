// What a person can do about an error, by its code and finer reason.
import type { Schemas } from '../../api/client'

type CallError = Pick<Schemas['ToolError'], 'code' | 'message'> & { details?: unknown }

export interface Violation {
  field: string
  expected: string
  found: string
  message: string
}

function detailsOf(error: CallError): Record<string, unknown> {
  return typeof error.details === 'object' && error.details !== null ? (error.details as Record<string, unknown>) : {}
}

export function reasonOf(error: CallError): string {
  const { reason } = detailsOf(error)
  return typeof reason === 'string' ? reason : ''
}

export function violationsOf(error: CallError): Violation[] {
  const { violations } = detailsOf(error)
  if (!Array.isArray(violations)) return []
  const text = (value: unknown) => (typeof value === 'string' ? value : '')
  return violations.map((one: Record<string, unknown> | null) => ({
    field: fieldOf(text(one?.pointer)),
    expected: text(one?.expected),
    found: text(one?.found),
    message: text(one?.message),
  }))
}

/** Where to connect with the server that wanted a token: a page of this console, and no other address. */
export function upstreamOf(error: CallError): string | undefined {
  const { url } = detailsOf(error)
  const [, name] = typeof url === 'string' ? (/^\/upstreams\/([a-z0-9][a-z0-9_-]*)$/.exec(url) ?? []) : []
  return name
}

/** `/a/0/b` as people write it: `a.0.b`. */
function fieldOf(pointer: string): string {
  const names = pointer.split('/').slice(1)
  return names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~')).join('.') || 'the input'
}

const BY_REASON: Readonly<Record<string, string>> = {
  schema: 'Correct the fields and run it again.',
  approval_required: 'Send it again, and have somebody decide in time.',
  approval_timeout: 'Send it again, and have somebody decide in time.',
  expired: 'Send it again, and have somebody decide in time.',
  rejected: '',
  cancelled: '',
  frozen: 'Something is stopped: see `toolgate killswitch list`.',
  budget: 'A budget is spent: raise the limit, or wait until it is renewed.',
  max_tool_calls: 'The run has made as many calls as it may. Open another.',
  blocked: 'Use another version of the tool, or another tool.',
  outcome_unknown: 'Look whether it happened, then settle it above.',
  lease_lost: 'Look whether it happened, then settle it above.',
}

const BY_CODE: Readonly<Record<string, string>> = {
  TIMEOUT: 'Try again, or give it more time with `timeout_ms`.',
  RATE_LIMIT: 'Wait, then try again.',
  AUTH_REQUIRED: 'A secret that the tool needs is missing: set it with `toolgate secret set`.',
  NETWORK_ERROR: 'Check that the host can be reached, then try again.',
  POLICY_DENIED: 'The decision below names what forbids it.',
}

export function remedyOf(error: CallError, tool: string): string {
  const reason = reasonOf(error)
  if (reason === 'not_found') return `Nothing is called \`${tool}\` for this caller: see \`toolgate tool list\`.`
  // Its words say how, and the page where that is done is linked.
  if (upstreamOf(error) !== undefined) return ''
  const { remedy } = detailsOf(error)
  if (typeof remedy === 'string') return remedy
  return BY_REASON[reason] ?? BY_CODE[error.code] ?? ''
}
