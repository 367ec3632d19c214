// The one way to the server: the public API, typed by its own description.
import createClient from 'openapi-fetch'
import { ApiError, type Problem } from './errors'
import { marked } from './page'
import type { components, paths } from './schema'

export type Schemas = components['schemas']

export const api = createClient<paths>({ baseUrl: globalThis.location?.origin ?? '' })
api.use({ onRequest: ({ request }) => marked(request) })

interface Answer<Data> {
  data?: Data
  error?: unknown
  response: Response
}

/** What the server answered, or an `ApiError` that a person can read. */
export async function taken<Data>(answer: Promise<Answer<Data>>): Promise<Data> {
  let answered: Answer<Data>
  try {
    answered = await answer
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === 'AbortError') throw cause
    throw ApiError.unreachable(cause)
  }
  const { data, error, response } = answered
  if (response.ok) return data as Data
  throw new ApiError(response.status, isProblem(error) ? error : undefined)
}

function isProblem(value: unknown): value is Problem {
  return typeof value === 'object' && value !== null && 'detail' in value && 'code' in value
}
