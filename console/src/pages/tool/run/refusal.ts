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

/** Of a call that has a record: the violations of the tool's schema. */
export function findingsOfError(error: Schemas['ToolError'] | null | undefined): Finding[] {
  const details: unknown = error?.details
  if (typeof details !== 'object' || details === null || !('violations' in details)) return []
  const { violations } = details
  if (!Array.isArray(violations)) return []
  return violations.flatMap((violation: unknown) => {
    if (typeof violation !== 'object' || violation === null) return []
    const { pointer, message } = violation as { pointer?: unknown; message?: unknown }
    if (typeof pointer !== 'string' || typeof message !== 'string') return []
    return [{ pointer, message: atItsPlace(message, pointer) }]
  })
}

/** Beside a field nobody needs to be told which field: “`/seconds` must be a number” becomes “Must be a number.” */
function atItsPlace(message: string, pointer: string): string {
  const named = `\`${pointer}\` `
  return sentence(message.startsWith(named) ? message.slice(named.length) : message)
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
