// What went wrong elsewhere, by name; docs/incidents.md has the whole list and where each is tested.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gateTest } from './gate.mjs'

const MODERN = '2026-07-28'
const here = (path) => fileURLToPath(new URL(path, import.meta.url))

async function post(url, headers, method, params = {}) {
  const meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} }
  const body = { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }
  const name = params.name ?? params.uri
  const usual = {
    accept: 'application/json, text/event-stream',
    'content-type': 'application/json',
    'mcp-protocol-version': MODERN,
    'mcp-method': method,
    ...(name ? { 'mcp-name': name } : {}),
  }
  const answer = await fetch(url, { method: 'POST', headers: { ...usual, ...headers }, body: JSON.stringify(body) })
  const text = await answer.text()
  const data = text.startsWith('{') ? text : (text.match(/^data: (\{.*)$/m)?.[1] ?? 'null')
  return { status: answer.status, text, said: JSON.parse(data) }
}

async function listed(url, headers) {
  const names = []
  let cursor
  do {
    const { said } = await post(url, headers, 'tools/list', cursor ? { cursor } : {})
    names.push(...said.result.tools.map((tool) => tool.name))
    cursor = said.result.nextCursor
  } while (cursor)
  return names
}

gateTest('a header of others makes nobody a caller (Kuadrant GHSA-g53w-w6mj-hrpp)', async (gate) => {
  const bare = await post(gate.mcp, {}, 'tools/list')
  assert.equal(bare.status, 401)
  const tried = [
    'x-user', 'x-forwarded-user', 'x-auth-request-user', 'x-api-key', 'x-toolgate-key', 'x-internal', 'x-envoy-internal',
    'x-forwarded-host', 'x-original-url', 'mcp-init-host', 'mcp-user', 'mcp-session-id', 'x-mcp-api-key', 'cookie',
    'proxy-authorization', 'x-real-ip', 'mcp-param-user', 'x-http-method-override',
  ]
  for (const header of tried) {
    const { status, text } = await post(gate.mcp, { [header]: gate.key }, 'tools/list')
    assert.deepEqual([status, text], [401, bare.text], header)
  }
  for (const query of ['key', 'apikey', 'api_key', 'token', 'access_token']) {
    const { status } = await post(new URL(`/mcp?${query}=${gate.key}`, gate.url), {}, 'tools/list')
    assert.notEqual(status, 200, query)
  }
})

gateTest('every door shows the same, and to another tenant nothing (Asana, 2025-06)', async (gate) => {
  const mine = { authorization: `Bearer ${gate.key}` }
  const byRest = []
  let cursor
  do {
    const query = new URLSearchParams({ limit: '100', ...(cursor ? { cursor } : {}) })
    const answer = await fetch(`${gate.url}/api/v1/tools?${query}`, { headers: mine })
    const page = await answer.json()
    byRest.push(...page.items.map((tool) => tool.name.replaceAll('.', '__')))
    cursor = page.next_cursor
  } while (cursor)
  assert.deepEqual((await listed(gate.mcp, mine)).sort(), byRest.sort())

  const { said } = await post(gate.mcp, mine, 'tools/call', { name: 'calculator', arguments: { expression: '6*7' } })
  const { id } = said.result._meta['dev.toolgate/call']
  await gate.rest('POST', '/tenants', { slug: 'other', name: 'Other' })
  const other = { 'toolgate-tenant': 'other' }
  await gate.rest('POST', '/users', { name: 'Ada', roles: ['member'] }, undefined, other)
  const { secret } = await gate.rest('POST', '/keys', { name: 'theirs', owner: 'Ada' }, undefined, other)
  const theirs = { authorization: `Bearer ${secret}` }
  const unknown = '01890000-0000-7000-8000-000000000000'
  const without = (text) => text.replaceAll(id, 'ID').replaceAll(unknown, 'ID')
  const [one, none] = await Promise.all(
    [id, unknown].map((id) => post(gate.mcp, theirs, 'resources/read', { uri: `toolgate://calls/${id}` })),
  )
  assert.ok(none.said.error, none.text)
  assert.deepEqual([one.status, without(one.text)], [none.status, without(none.text)])
})

gateTest(
  'a hostile server is taken for what it is',
  async (gate) => {
    const mine = { authorization: `Bearer ${gate.key}` }
    const saved = await gate.rest('PUT', '/upstreams/hostile', {
      version: 1, name: 'hostile', transport: { kind: 'stdio', entry: 'hostile' },
    })
    const outcome = Object.fromEntries(saved.reading.tools.map((tool) => [tool.tool, tool.outcome]))
    // Tool poisoning and shadowing; `$ref` that loads files (mcpproxy 0.72.0).
    for (const refused of ['s\u0435nd_email', 'loads_a_file', 'loads_from_the_web', 'hides_words', 'steers_terminals']) {
      assert.equal(outcome[refused], 'refused', refused)
    }
    assert.ok([outcome.send_email, outcome.Send_Email].includes('refused'), 'of two that look alike one at most')

    // Listed is callable, also what is too long for most clients (langflow-e2e#1410).
    const names = (await listed(gate.mcp, mine)).filter((name) => name.startsWith('hostile'))
    assert.equal(new Set(names).size, names.length)
    assert.equal(names.filter((name) => name.startsWith('hostile_a_name')).length, 2, names.join())
    for (const name of names) {
      assert.ok(name.length <= 64, name)
      const { said } = await post(gate.mcp, mine, 'tools/call', { name, arguments: { text: 'b' } })
      assert.equal(said.error, undefined, `${name}: ${JSON.stringify(said)}`)
    }

    // A pattern that takes for ever (CVE-2026-0621) is judged here: whoever backtracks over it never answers.
    const slow = { name: 'hostile__takes_for_ever', arguments: { text: `${'a'.repeat(50_000)}!` } }
    const judged = await post(gate.mcp, mine, 'tools/call', slow)
    assert.match(judged.text, /VALIDATION_ERROR/)

    // What it says of its own tool and of its own answer loosens nothing (microsoft/agent-framework#8187).
    const asked = await post(gate.mcp, mine, 'tools/call', { name: 'hostile__lies', arguments: {} })
    assert.match(asked.text, /pending/)
    await gate.rest('PUT', '/tools/hostile.lies/classification', { egress_class: 'none', reason: 'a test' })
    const { said } = await post(gate.mcp, mine, 'tools/call', { name: 'hostile__lies', arguments: { a: 1 } })
    const { id } = said.result._meta['dev.toolgate/call']
    assert.notEqual(id, 'mine')
    assert.ok(JSON.stringify(await gate.rest('GET', `/calls/${id}`)).includes('untrusted'))
  },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolgate-incidents-'))
    const file = join(folder, 'entries.yaml')
    const hostile = { command: [process.execPath, here('fixture/hostile.mjs')] }
    await writeFile(file, JSON.stringify({ upstreams: { hostile } }), { mode: 0o600 })
    return { settings: { TOOLGATE_ENTRIES_FILE: file }, end: () => rm(folder, { recursive: true, force: true }) }
  },
)
