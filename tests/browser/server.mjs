// A real `toolgate serve` for one test: its own data folder, a free port, stopped by SIGTERM.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const READY_MS_MAX = 30_000
const STOP_MS_MAX = 10_000 // `serve` promises to drain and end within this

export function program() {
  return join(resolve(ROOT, process.env.CARGO_TARGET_DIR ?? 'target'), 'debug', 'toolgate')
}

// Starts a server with the example tools; returns what it said when it was ready, `{ url, sign_in_url, key_file }`, and
// its `data` folder, and `stop`, which ends it and removes that. `settings` are variables of its environment.
export async function startServer(settings = {}) {
  const data = await mkdtemp(join(tmpdir(), 'toolgate-browser-'))
  const args = ['serve', '--json', '--examples', '--listen', '127.0.0.1:0', '--data', data]
  const env = { ...process.env, ...settings }
  const child = spawn(program(), args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const log = []
  child.stderr.setEncoding('utf8').on('data', (text) => log.push(text))
  const ended = new Promise((done) => {
    child.once('error', (error) => done(`could not start: ${error.message}`))
    child.once('exit', (code, signal) => done(`ended with ${signal ?? `code ${code}`}`))
  })
  // Whatever goes wrong in the test process, the server does not outlive it.
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)

  async function stop() {
    child.kill('SIGTERM')
    const how = await Promise.race([ended, after(STOP_MS_MAX, 'did not end')])
    kill()
    process.off('exit', kill)
    await rm(data, { recursive: true, force: true })
    assert.equal(how, 'ended with code 0', `after SIGTERM the server ${how}\n${log.join('')}`)
  }

  try {
    const ready = JSON.parse(await firstLine(child, ended))
    return { ...ready, data, stop }
  } catch (error) {
    await stop().catch(() => {})
    throw new Error(`${program()}: ${error.message}\n${log.join('')}`)
  }
}

async function firstLine(child, ended) {
  const line = once(createInterface({ input: child.stdout }), 'line').then(([text]) => ({ text }))
  const failed = ended.then((why) => ({ why }))
  const late = after(READY_MS_MAX, { why: `said nothing for ${READY_MS_MAX} ms` })
  const { text, why } = await Promise.race([line, failed, late])
  if (why) throw new Error(why)
  return text
}

function after(ms, value) {
  return new Promise((done) => setTimeout(done, ms, value).unref())
}
