import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Schemas } from './client'
import { isElsewhere, marked, opensAnew, opensAs } from './page'

const me = (tenant: string, principal = 'user:1') => ({ tenant, principal }) as Schemas['Me']
const headers = (method: string) => {
  const { headers } = marked(new Request('http://localhost/api/v1/me', { method }))
  return [headers.get('Toolgate-Tenant'), headers.get('Toolgate-Background')]
}

beforeEach(() => {
  vi.useFakeTimers()
  opensAnew()
})
afterEach(() => {
  vi.useRealTimers()
})

test('a page stays in the tenant it was opened in, whatever another tab does', () => {
  expect(isElsewhere(me('a'))).toBe(false)
  opensAs(me('a'))
  opensAs(me('b'))
  expect(headers('POST')[0]).toBe('a')
  expect(isElsewhere(me('a'))).toBe(false)
  expect(isElsewhere(me('b'))).toBe(true)
  expect(isElsewhere(me('a', 'user:2'))).toBe(true)
  opensAnew()
  expect(headers('POST')[0]).toBe(null)
})

test('what a page asks while nobody is there is marked, and what somebody does never is', () => {
  window.dispatchEvent(new Event('keydown'))
  vi.advanceTimersByTime(59_000)
  expect(headers('GET')[1]).toBe(null)
  vi.advanceTimersByTime(2_000)
  expect(headers('GET')[1]).toBe('1')
  expect(headers('POST')[1]).toBe(null)
  window.dispatchEvent(new Event('wheel'))
  expect(headers('GET')[1]).toBe(null)
})
