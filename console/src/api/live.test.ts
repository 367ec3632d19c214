// The event stream against a source that opens, tells and breaks when the test says so.
import { QueryClient } from '@tanstack/react-query'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { follow } from './live'

class Source {
  static readonly CLOSED = 2
  static last: Source
  readyState = 0
  onopen: () => void = () => {}
  onerror: () => void = () => {}
  private readonly heard = new Map<string, (message: { data: string }) => void>()
  constructor() {
    Source.last = this
  }
  addEventListener(type: string, listener: (message: { data: string }) => void) {
    this.heard.set(type, listener)
  }
  tell(type: string) {
    this.heard.get(type)?.({ data: JSON.stringify({ type }) })
  }
  close() {}
}

const staled = (client: QueryClient) =>
  client
    .getQueryCache()
    .getAll()
    .filter((query) => query.state.isInvalidated)
    .map((query) => query.queryKey[0])
    .sort()

beforeEach(() => {
  vi.stubGlobal('EventSource', Source)
  vi.useFakeTimers()
})
afterEach(() => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

test('what was read before the stream stood is asked for again, and after a break everything', async () => {
  const read = (client: QueryClient) => {
    for (const kind of ['approvals', 'calls', 'tools']) client.setQueryData([kind], {})
  }
  const client = new QueryClient()
  const stop = follow(client)

  read(client)
  Source.last.onopen()
  expect(staled(client)).toEqual(['approvals', 'calls'])

  read(client)
  Source.last.tell('tool.started')
  await vi.advanceTimersByTimeAsync(1_000)
  expect(staled(client)).toEqual(['calls'])

  read(client)
  Source.last.onerror()
  Source.last.onopen()
  expect(staled(client)).toEqual(['approvals', 'calls', 'tools'])
  stop()
})
