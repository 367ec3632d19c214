// How a call came out, as people tell it. To the API a call that was denied has failed; but nothing ran, so nothing failed.

export type Outcome = 'completed' | 'failed' | 'refused' | 'cancelled' | 'open'

interface Told {
  status: string
  error_code?: string | null
}

/** A rule did not let it through; a person's no is a status of its own. */
export function isDenied(status: string, error: string | null | undefined): boolean {
  return status === 'failed' && error === 'POLICY_DENIED'
}

export function outcomeOf({ status, error_code }: Told): Outcome {
  if (status === 'rejected' || isDenied(status, error_code)) return 'refused'
  if (status === 'completed' || status === 'failed' || status === 'cancelled') return status
  return 'open'
}
