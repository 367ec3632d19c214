// What the server refuses, in the words it found for it.
import type { Schemas } from './client'

export type Problem = Schemas['Problem']

/** A finding at one place of what was sent: a JSON pointer into the body. */
export interface Finding {
  pointer: string
  message: string
}

export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly remedy: string
  readonly problem: Problem | undefined

  constructor(status: number, problem: Problem | undefined, message?: string, remedy?: string) {
    super(sentence(message ?? problem?.detail ?? `the server answered ${status} without saying why`))
    this.status = status
    this.code = problem?.code ?? (status === 0 ? 'UNREACHABLE' : 'INTERNAL_ERROR')
    this.remedy = sentence(remedy ?? problem?.remedy ?? '')
    this.problem = problem
  }

  static unreachable(cause: unknown): ApiError {
    const error = new ApiError(0, undefined, 'The server cannot be reached', 'Check that it runs, then try again')
    error.cause = cause
    return error
  }

  /** Trying the same again can help: nothing was wrong with what was sent. */
  get retryable(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500
  }

  /** Where in the body the problem lies, if it said so. */
  get findings(): Finding[] {
    const details = this.problem?.details as { errors?: unknown } | null | undefined
    const listed = Array.isArray(details?.errors) ? details.errors.filter(isFinding) : []
    if (listed.length > 0) return listed
    const pointer = this.problem?.pointer
    return pointer ? [{ pointer, message: this.message }] : []
  }
}

function isFinding(value: unknown): value is Finding {
  if (typeof value !== 'object' || value === null) return false
  const { pointer, message } = value as Partial<Finding>
  return typeof pointer === 'string' && typeof message === 'string'
}

/** A problem's words begin small and end open, since elsewhere they stand within a line. */
export function sentence(words: string): string {
  if (words === '') return ''
  const begun = words.charAt(0).toUpperCase() + words.slice(1)
  return /[.!?]$/.test(begun) ? begun : `${begun}.`
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  return new ApiError(0, undefined, error instanceof Error ? error.message : String(error))
}
