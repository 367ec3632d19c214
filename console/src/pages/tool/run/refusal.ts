// What the server found wrong with an input, at its places in the form.
import type { Schemas } from '../../../api/client'
import { ApiError, type Finding, sentence } from '../../../api/errors'

const IN_THE_INPUT = /^\/input(?=\/|$)/

/** Of a call that was refused before it began: no record. */
export function findingsOfProblem(error: unknown): Finding[] {
  if (!(error instanceof ApiError)) return []
  return error.findings
    .filter(({ pointer }) => IN_THE_INPUT.test(pointer))
    .map(({ pointer, message }) => ({ pointer: pointer.replace(IN_THE_INPUT, ''), message: sentence(message) }))
}

/** Of a call that has a record: what the gate found against the tool's schema, or the place that the tool itself named. */
export function findingsOfError(error: Schemas['ToolError'] | null | undefined): Finding[] {
  const details: unknown = error?.details
  if (!error || typeof details !== 'object' || details === null) return []
  const { violations, pointer } = details as { violations?: unknown; pointer?: unknown }
  const listed = Array.isArray(violations) ? violations.flatMap(findingOf) : []
  if (listed.length > 0 || error.code !== 'VALIDATION_ERROR') return listed
  return findingOf({ pointer, message: error.message })
}

function findingOf(violation: unknown): Finding[] {
  if (typeof violation !== 'object' || violation === null) return []
  const { pointer, message } = violation as { pointer?: unknown; message?: unknown }
  if (typeof pointer !== 'string' || typeof message !== 'string') return []
  return [{ pointer, message: atItsPlace(message, pointer) }]
}

/**
 * Beside a field nobody needs to be told which field: “`/seconds` must be a number” becomes “Must be a number.”, and a
 * tool’s own “`seconds`: too many” becomes “Too many.”
 */
function atItsPlace(message: string, pointer: string): string {
  const name = pointer.slice(pointer.lastIndexOf('/') + 1)
  const named = [`\`${pointer}\` `, `\`${pointer}\`: `, `\`${name}\`: `].find((start) => message.startsWith(start))
  return sentence(named === undefined ? message : message.slice(named.length))
}

/** Why it failed, by the machine's word for it, if the server gave one. */
export function reasonOf(error: Schemas['ToolError']): string {
  const details: unknown = error.details
  if (typeof details !== 'object' || details === null || !('reason' in details)) return ''
  return typeof details.reason === 'string' ? details.reason : ''
}

const REMEDIES: Readonly<Record<Schemas['ErrorCode'], string>> = {
  VALIDATION_ERROR: 'Correct the fields that are marked, and run it again.',
  TIMEOUT: 'Run it again, perhaps with less to do; its time limit is under Details.',
  RATE_LIMIT: 'Wait a moment, and run it again.',
  POLICY_DENIED: 'Somebody who administers this tenant can change what is allowed.',
  AUTH_REQUIRED: 'Set the key that it needs, or ask its owner to give it to this tool.',
  PROVIDER_ERROR: 'The service behind the tool refused or broke; look at its words, then run it again.',
  NETWORK_ERROR: 'Check that the host can be reached and is allowed, then run it again.',
  SANDBOX_ERROR: 'This server cannot run the tool as it is; whoever operates it can.',
  UNKNOWN: 'Look at the call’s record for what happened.',
}

export function remedyOf(error: Schemas['ToolError']): string {
  return REMEDIES[error.code] ?? REMEDIES.UNKNOWN
}
