import { expect, it } from 'vitest'
import { redirectOf, standingOf, whereOf } from './standing'

const FINE = { moved: false, problem: null, changes_offered: 0, tools_blocked: 0, health: null }

it.each([
  [{}, 'fine'],
  [{ changes_offered: 1, tools_blocked: 2 }, '1 change offered'],
  [{ tools_blocked: 2 }, '2 tools blocked'],
  [{ changes_offered: 3, problem: 'it does not answer' }, 'cannot be read'],
  [{ moved: true, problem: 'it does not answer' }, 'moved'],
  [{ health: { resting: true, failures_in_a_row: 3 } }, 'left alone for a while'],
  [{ health: { resting: false, failures_in_a_row: 1 } }, 'failing'],
  [{ health: { resting: false, failures_in_a_row: 0 } }, 'fine'],
])('says of a server what needs somebody first', (told, words) => {
  expect(standingOf({ ...FINE, ...told }).words).toBe(words)
})

it('says where a server is', () => {
  expect(whereOf({ transport: { kind: 'stdio', entry: 'notes' } })).toBe('the program notes of entries.yaml')
  expect(whereOf({ transport: { kind: 'http', url: 'https://mcp.example.com/mcp' } })).toBe(
    'https://mcp.example.com/mcp',
  )
})

it('lets a browser come back to the console only where that is on its own computer', () => {
  expect(redirectOf('http://127.0.0.1:8080')).toEqual({ redirect: 'http://127.0.0.1:8080/callback', comesBack: true })
  expect(redirectOf('https://gate.example.com').comesBack).toBe(false)
  expect(redirectOf('http://localhost').comesBack).toBe(false)
})
