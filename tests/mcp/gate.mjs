// A server to test against, and the ways in: a key, and a door beside it for programs that cannot show one.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { test } from 'node:test'
import { program, startServer } from '../browser/server.mjs'
import { messagesOf } from './schema.mjs'

const TEST_MS_MAX = 180_000
let exchanges = 0

// A test with a server of its own. `gate` has its address, a key that decides nothing, and the owner's word by REST. What
// `before` prepares is a part of it: its `settings` are the server's, and it is ended with it.
export function gateTest(name, body, before = async () => ({}), { skip = false } = {}) {
  test(name, { timeout: TEST_MS_MAX, skip }, async () => {
    const { settings = {}, end = async () => {}, ...prepared } = await before()
    const server = await startServer({ TOOLGATE_MCP_PATIENCE_SECONDS: '1', ...settings })
    try {
      const owner = (await readFile(server.key_file, 'utf8')).trim()
      const rest = async (method, path, sent, signal, headers) => {
        const answer = await fetch(`${server.url}/api/v1${path}`, {
          method,
          signal,
          headers: { authorization: `Bearer ${owner}`, 'content-type': 'application/json', ...headers },
          body: sent === undefined ? undefined : JSON.stringify(sent),
        })
        const said = await answer.json()
        if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(said)}`)
        return said
      }
      const { secret } = await rest('POST', '/keys', { name: 'client' })
      await body({ ...server, ...prepared, rest, key: secret, mcp: new URL('/mcp', server.url) })
    } finally {
      await server.stop()
      await end()
    }
  })
}

// The program of a client that starts its servers.
export const stdio = (gate) => ({ command: program(), args: ['--data', gate.data, 'mcp'] })

// A door in front of the gate that adds the key, on a free port of this machine, for as long as `body` takes. A `watch`
// hears every message that passes.
export async function withDoor(gate, body, watch) {
  return withDoorTo(gate.mcp, { authorization: `Bearer ${gate.key}` }, body, watch)
}

// The same in front of any address, with these headers.
export async function withDoorTo(place, added, body, watch) {
  const door = createServer((asked, answer) => {
    const headers = { ...asked.headers, ...added }
    const { hostname: host, port } = place
    const revision = asked.headers['mcp-protocol-version']
    const within = (exchanges += 1)
    hear(watch, 'client', asked, revision, within)
    const on = request({ host, port, path: asked.url, method: asked.method, headers }, (said) => {
      answer.writeHead(said.statusCode, said.headers)
      hear(watch, 'server', said, revision, within)
      said.pipe(answer)
    })
    on.on('error', () => answer.destroy())
    answer.on('close', () => on.destroy())
    asked.pipe(on)
  })
  door.listen(0, '127.0.0.1')
  await once(door, 'listening')
  try {
    return await body(new URL(place.pathname, `http://127.0.0.1:${door.address().port}`))
  } finally {
    door.closeAllConnections()
    door.close()
  }
}

function hear(watch, by, stream, revision, within) {
  if (watch === undefined) return
  const parts = []
  stream.on('data', (part) => parts.push(part))
  stream.once('close', () => {
    for (const message of messagesOf(stream.headers['content-type'], Buffer.concat(parts).toString())) {
      watch.heard(by, message, revision, within)
    }
  })
}

// Runs a program to its end; what it printed and how it ended.
export function run(file, args, options = {}) {
  return new Promise((done) => {
    execFile(file, args, { maxBuffer: 64 << 20, ...options }, (error, stdout, stderr) => {
      done({ code: error ? (error.code ?? 1) : 0, stdout, stderr })
    })
  })
}
