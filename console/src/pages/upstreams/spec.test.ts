import { expect, it } from 'vitest'
import type { Upstream } from './queries'
import { filledOf, missingIn, specOf } from './spec'

const EMPTY = filledOf(undefined)

it('writes a server at an address, with a secret in a header or with tokens', () => {
  const at = { ...EMPTY, name: 'issues', url: ' https://mcp.example.com/mcp ' }
  expect(specOf(at, undefined)).toEqual({
    name: 'issues',
    transport: { kind: 'http', url: 'https://mcp.example.com/mcp' },
  })
  expect(specOf({ ...at, proof: 'header', secret: 'TOKEN' }, undefined).headers).toEqual([
    { name: 'Authorization', secret: 'TOKEN', scheme: 'Bearer' },
  ])
  expect(specOf({ ...at, proof: 'oauth', per: 'user' }, undefined).auth).toEqual({ oauth: { per: 'user' } })
})

it('keeps what the form does not ask for', () => {
  const before = {
    name: 'notes',
    title: 'Notes',
    transport: { kind: 'http', url: 'https://a.example/mcp' },
    headers: [
      { name: 'X-Team', value: 'blue' },
      { name: 'Authorization', secret: 'TOKEN' },
    ],
    auth: { oauth: { client_id: 'ours', per: 'org' } },
    apart: true,
    accepts: ['description'],
    timeout_ms: null,
  } as unknown as Upstream
  const filled = filledOf(before)
  expect(filled).toMatchObject({ proof: 'oauth', header: 'Authorization', scheme: '', secret: 'TOKEN' })
  expect(specOf(filled, before)).toEqual({
    name: 'notes',
    title: 'Notes',
    transport: { kind: 'http', url: 'https://a.example/mcp' },
    headers: [{ name: 'X-Team', value: 'blue' }],
    auth: { oauth: { client_id: 'ours', per: 'org' } },
    apart: true,
    accepts: ['description'],
  })
})

it.each([
  [EMPTY, 'Give it a name first'],
  [{ ...EMPTY, name: 'a' }, 'Write its address first'],
  [{ ...EMPTY, name: 'a', way: 'stdio' as const }, 'Name the entry first'],
  [{ ...EMPTY, name: 'a', url: 'x', proof: 'header' as const }, 'Name the header and the secret first'],
  [{ ...EMPTY, name: 'a', url: 'x' }, undefined],
])('says what is missing', (filled, told) => {
  expect(missingIn(filled)).toBe(told)
})
