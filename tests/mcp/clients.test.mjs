// The published kits and the inspector as clients: each lists, calls, is told what is wrong, waits for a person, and is
// refused. Every message on the way fits the schemas of the protocol.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { Client as NewClient, StreamableHTTPClientTransport as NewHttp } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as OldHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { gateTest, stdio, withDoor } from './gate.mjs'
import { inspectorClient, NODE, pythonClient } from './programs.mjs'
import { Watch } from './schema.mjs'

const WHO = { name: 'a published kit', version: '1' }
const MODERN = '2026-07-28'
const LEGACY = '2025-11-25'
const connected = async (client, transport) => {
  await client.connect(transport)
  return client
}
const newest = (mode) => (url) =>
  connected(new NewClient(WHO, { versionNegotiation: { mode } }), new NewHttp(url))

// By address, through a door that adds the key; and which revision each comes to speak.
const BY_ADDRESS = {
  'the first kit': [LEGACY, (url) => connected(new OldClient(WHO), new OldHttp(url))],
  'the second kit with a handshake': [LEGACY, newest('legacy')],
  'the second kit as it finds it': [MODERN, newest('auto')],
  'the Python kit with a handshake': [LEGACY, (url) => pythonClient('legacy', url.href)],
  'the Python kit as it finds it': [MODERN, (url) => pythonClient('auto', url.href)],
  'the inspector with a handshake': [LEGACY, (url) => inspectorClient('legacy', url)],
  // It takes tasks, and waits for them.
  'the inspector as it finds it': [MODERN, async (url) => ({ ...(await inspectorClient('auto', url)), waits: true })],
}
const BY_STREAMS = {
  'the first kit': (gate) => connected(new OldClient(WHO), new StdioClientTransport(stdio(gate))),
  'the Python kit': (gate) => pythonClient('auto', [stdio(gate).command, ...stdio(gate).args]),
}

for (const [name, [revision, make]] of Object.entries(BY_ADDRESS)) {
  const skip = name.includes('inspector') && !existsSync(NODE) && 'it needs Node 24 for Linux on x64'
  const over = async (gate) => {
    const watch = new Watch()
    await withDoor(gate, async (url) => use(gate, name, await make(url)), watch)
    watch.right()
    assert.ok(watch.revisions.has(revision), [...watch.revisions].join())
    assert.ok(watch.methods.has('tools/call'), [...watch.methods].join())
  }
  gateTest(`${name} over HTTP`, over, undefined, { skip })
}

for (const [name, make] of Object.entries(BY_STREAMS)) {
  gateTest(`${name} over its standard streams`, async (gate) => use(gate, name, await make(gate)))
}

// The page is where a person decides. What the client says is that it was opened, or not, and never that somebody agreed.
for (const [mode, revision, patience] of [['auto', MODERN, '1'], ['legacy', LEGACY, '5']]) {
  const sent = async (gate) => {
    const watch = new Watch()
    await withDoor(gate, async (url) => {
      const opened = []
      let decide = () => {}
      const client = await pythonClient(mode, url.href, async (asked) => {
        opened.push(asked)
        await decide(asked.url.split('/calls/')[1])
        return { action: 'accept' }
      })
      const decided = (decision) => (call) => gate.rest('POST', `/approvals/${call}/decide?wait=20`, decision)
      const write = (path) => client.callTool({ name: 'write_file', arguments: { path, text: mode } })
      try {
        assert.equal(client.revision, revision)
        decide = decided({ decision: 'approve' })
        const done = await write('note.txt')
        assert.notEqual(done.isError, true, JSON.stringify(done))
        const [{ mode: way, url: page, message }] = opened
        assert.equal(way, 'url')
        assert.ok(page.startsWith(`${gate.url}/`) && page.endsWith(`/calls/${done._meta['dev.toolgate/call'].id}`), page)
        assert.match(message, /write_file/)

        decide = decided({ decision: 'reject', reason: 'not today' })
        const refused = await write('again.txt')
        assert.match(refused.content[0].text, /POLICY_DENIED.*not today/s)

        // It opened the page, and nobody decided there.
        decide = () => {}
        opened.length = 0
        const waits = await write('third.txt').catch((error) => error.message)
        const call = opened[0].url.split('/calls/')[1]
        assert.equal((await gate.rest('GET', `/calls/${call}`)).status, 'pending', JSON.stringify(waits))
      } finally {
        await client.close()
      }
    }, watch)
    watch.right()
    assert.ok(watch.revisions.has(revision), [...watch.revisions].join())
  }
  const settings = { TOOLGATE_MCP_PATIENCE_SECONDS: patience }
  gateTest(`the Python kit is sent to the page of an approval, ${revision}`, sent, async () => ({ settings }))
}

async function use(gate, name, client) {
  try {
    const { tools } = await client.listTools()
    const names = tools.map((tool) => tool.name)
    assert.ok(names.includes('calculator') && names.includes('write_file'), names.join())
    assert.ok(names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name)), names.join())

    const right = await client.callTool({ name: 'calculator', arguments: { expression: '6*7' } })
    assert.deepEqual(right.structuredContent, { result: 42 })
    const wrong = await client.callTool({ name: 'calculator', arguments: { expresion: '6*7' } })
    assert.equal(wrong.isError, true)
    assert.match(wrong.content[0].text, /VALIDATION_ERROR.*expression/s)
    await assert.rejects(client.callTool({ name: 'nothing_such', arguments: {} }), /no tool|not found/i)

    const write = { name: 'write_file', arguments: { path: 'note.txt', text: `by ${name}` } }
    const again = { ...write, arguments: { path: 'again.txt', text: name } }
    if (client.waits) {
      const [done, refused] = [client.callTool(write), client.callTool(again)]
      await decide(gate, 'note.txt', { decision: 'approve' })
      await decide(gate, 'again.txt', { decision: 'reject', reason: 'not today' })
      assert.notEqual((await done).isError, true)
      assert.match((await refused).content[0].text, /POLICY_DENIED.*not today/s)
      return
    }
    const pending = await client.callTool(write)
    assert.equal(pending.isError, true)
    const [, call] = pending.content[0].text.match(/^pending:.*\/calls\/([0-9a-f-]+)/s)
    assert.equal((await gate.rest('GET', `/calls/${call}`)).status, 'pending')
    await gate.rest('POST', `/approvals/${call}/decide?wait=20`, { decision: 'approve' })
    const done = await client.callTool(write)
    assert.notEqual(done.isError, true, JSON.stringify(done))
    assert.equal(done._meta['dev.toolgate/call'].id, call)

    const another = await client.callTool(again)
    const [, second] = another.content[0].text.match(/\/calls\/([0-9a-f-]+)/)
    await gate.rest('POST', `/approvals/${second}/decide`, { decision: 'reject', reason: 'not today' })
    const refused = await client.callTool(again)
    assert.equal(refused.isError, true)
    assert.match(refused.content[0].text, /POLICY_DENIED.*not today/s)
  } finally {
    await client.close()
  }
}

// Decides what waits for the file of this name, as soon as it does.
async function decide(gate, path, decision) {
  for (;;) {
    const { items } = await gate.rest('GET', '/approvals')
    const found = items.find((item) => JSON.stringify(item).includes(path))
    if (found) return gate.rest('POST', `/approvals/${found.call_id ?? found.id}/decide`, decision)
    await new Promise((done) => setTimeout(done, 100))
  }
}
