// Messages as they are, without a kit: every method in every revision, each message on the way fitting the schemas; and
// many clients at once that all call their request 1.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gateTest, withDoor } from './gate.mjs'
import { messagesOf, REVISIONS, Watch } from './schema.mjs'

const MODERN = '2026-07-28'
const WHO = { name: 'by hand', version: '1' }
const CLIENTS = 256
const WAITING = 32

// One conversation. The same id for every request, unless told.
class Talk {
  #session
  constructor(url, revision, headers = {}) {
    Object.assign(this, { url, revision, headers })
  }

  async begin() {
    if (this.revision === MODERN) return this.ask('server/discover')
    const params = { protocolVersion: this.revision, capabilities: {}, clientInfo: WHO }
    const said = await this.ask('initialize', params)
    assert.equal(said.result.protocolVersion, this.revision)
    await this.post({ jsonrpc: '2.0', method: 'notifications/initialized' })
    return said
  }

  // The answer to a request, and what was told before it.
  async ask(method, params = {}, id = 1) {
    const said = await this.post(this.request(method, params, id))
    const answer = said.find((message) => message.id === id && message.method === undefined)
    assert.ok(answer, `${method}: ${JSON.stringify(said)}`)
    return { ...answer, told: said.filter((message) => message !== answer) }
  }

  request(method, params, id) {
    if (this.revision !== MODERN) return { jsonrpc: '2.0', id, method, params }
    const { _meta, ...rest } = params
    const own = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': WHO,
    }
    return { jsonrpc: '2.0', id, method, params: { ...rest, _meta: { ...own, ..._meta } } }
  }

  async post(message) {
    const name = message.params?.name ?? message.params?.uri
    const headers = {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...(this.revision === MODERN ? { 'mcp-method': message.method } : {}),
      ...(this.revision === MODERN && name ? { 'mcp-name': name } : {}),
      ...(message.method === 'initialize' || this.revision === '2025-03-26' ? {} : { 'mcp-protocol-version': this.revision }),
      ...(this.#session ? { 'mcp-session-id': this.#session } : {}),
      ...this.headers,
    }
    const answer = await fetch(this.url, { method: 'POST', headers, body: JSON.stringify(message) })
    this.#session ??= answer.headers.get('mcp-session-id') ?? undefined
    const text = await answer.text()
    return messagesOf(answer.headers.get('content-type'), text).flat()
  }
}

for (const revision of REVISIONS) {
  gateTest(`every method of ${revision} is answered as its schema says`, async (gate) => {
    const watch = new Watch()
    const talk = async (url) => {
      const talk = new Talk(url, revision)
      const begun = await talk.begin()
      const { tools } = (await talk.ask('tools/list')).result
      assert.ok(tools.length > 10)
      if (revision === '2025-03-26') assert.ok(tools.every((tool) => tool.outputSchema === undefined))

      const call = (expression) => ({ name: 'calculator', arguments: { expression }, _meta: { progressToken: 1 } })
      const right = (await talk.ask('tools/call', call('6*7'))).result
      assert.match(right.content[0].text, /42/)
      assert.equal((await talk.ask('tools/call', call('6*'))).result.isError, true)
      assert.equal((await talk.ask('tools/call', { name: 'nothing_such', arguments: {} })).error.code, -32602)
      const write = { name: 'write_file', arguments: { path: 'a.txt', text: 'a' }, _meta: { progressToken: 2 } }
      const pending = (await talk.ask('tools/call', write)).result
      assert.match(pending.content[0].text, /pending/)

      const uri = `toolgate://calls/${right._meta['dev.toolgate/call'].id}`
      assert.ok((await talk.ask('resources/read', { uri })).result.contents.length > 0)
      assert.ok((await talk.ask('resources/list')).result.resources)
      assert.ok((await talk.ask('resources/templates/list')).result.resourceTemplates)
      assert.ok((await talk.ask('resources/read', { uri: 'toolgate://calls/nothing' })).error)
      if (begun.result.capabilities.prompts) assert.ok((await talk.ask('prompts/list')).result.prompts)
      if (begun.result.capabilities.completions) {
        const argument = { ref: { type: 'ref/prompt', name: 'nothing' }, argument: { name: 'a', value: '' } }
        await talk.ask('completion/complete', argument)
      }
      if (revision !== MODERN) assert.deepEqual((await talk.ask('ping')).result, {})
      if (revision === '2025-03-26') {
        const both = [talk.request('ping', {}, 1), talk.request('tools/call', call('1+1'), 2)]
        const said = await talk.post(both)
        assert.deepEqual(said.map((message) => message.id).sort(), [1, 2])
      }
      assert.equal((await talk.ask('tools/none')).error.code, -32601)
    }
    await withDoor(gate, talk, watch)
    // What there is no method for is no message of the protocol.
    watch.wrong = watch.wrong.filter((wrong) => !wrong.includes('tools/none'))
    watch.right()
    assert.ok(watch.revisions.has(revision))
  })
}

// CVE-2026-25536: a transport that clients shared gave answers to the wrong one.
gateTest(`${CLIENTS} clients that all call their request 1 never meet`, async (gate) => {
  const headers = { authorization: `Bearer ${gate.key}` }
  const talks = Array.from({ length: CLIENTS }, (_, index) => new Talk(gate.mcp, REVISIONS[index % REVISIONS.length], headers))
  await Promise.all(talks.map((talk) => talk.begin()))
  const mine = async (talk, index) => {
    const params = { name: 'calculator', arguments: { expression: `${index} * 1000 + 1` }, _meta: { progressToken: 1 } }
    const { result } = await talk.ask('tools/call', params)
    assert.match(result.content[0].text, new RegExp(`\\b${index * 1000 + 1}\\b`))
  }
  // While some wait for a person, with the same token of progress, the others go on.
  const waiting = talks.slice(0, WAITING).map(async (talk, index) => {
    const given = { path: `${index}.txt`, text: `of ${index}` }
    const { result, told } = await talk.ask('tools/call', { name: 'write_file', arguments: given, _meta: { progressToken: 1 } })
    assert.ok(told.every((note) => note.params.progressToken === 1))
    const { id } = result._meta['dev.toolgate/call']
    const call = await gate.rest('GET', `/calls/${id}`)
    assert.ok(JSON.stringify(call).includes(`"of ${index}"`), JSON.stringify(call))
    return id
  })
  await Promise.all(talks.slice(WAITING).map((talk, index) => mine(talk, index + WAITING)))
  assert.equal(new Set(await Promise.all(waiting)).size, WAITING)
})

test('a message that does not fit is found', () => {
  const meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} }
  const ask = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }
  const result = { resultType: 'complete', tools: [], ttlMs: 0, cacheScope: 'private' }
  const check = (asked, answer, expected) => {
    const watch = new Watch()
    watch.heard('client', asked)
    watch.heard('server', { jsonrpc: '2.0', id: 1, ...answer })
    assert.equal(watch.wrong.length, expected, watch.wrong.join())
  }
  check(ask, { result }, 0)
  check(ask, { result: { ...result, ttlMs: undefined } }, 1)
  check(ask, { result: { ...result, tools: [{ name: 'a' }] } }, 1)
  check(ask, { error: { code: 'a', message: 'b' } }, 1)
  check({ ...ask, params: { _meta: { ...meta, 'io.modelcontextprotocol/clientCapabilities': 1 } } }, { result }, 1)
})
