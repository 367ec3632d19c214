/**
 * Tools of one's own for Toolgate, in JavaScript and TypeScript: one file, no dependencies, Node.js 20 or newer.
 *
 *     import { serve, tool } from 'toolgate-sdk'
 *
 *     const countWords = tool({
 *       name: 'countWords',
 *       description: 'Counts the words of a text. Use it when a length matters. Do not use it for letters.',
 *       input: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } },
 *       output: { type: 'object', required: ['words'], properties: { words: { type: 'integer' } } },
 *       execute: ({ text }) => ({ words: text.split(/\s+/).length }),
 *     })
 *     await serve({ url: 'http://127.0.0.1:8787', key: '…', tools: [countWords] })
 *
 * The process leases calls that the gate has let through, carries them out and reports. It says that it is alive, hears
 * when somebody wants a call stopped, waits for a server that is away, and ends when it is told to (SIGINT, SIGTERM)
 * after it has finished what it took.
 *
 * Deliberately absent: anything that decides. Who may call, who is asked and what is recorded is the gate's.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'

const VERSION = '0.1.0'
// Long enough to cost little, short enough that a worker that is told to end does so soon.
const LEASE_WAIT_S = 5
// A lease holds for a minute; so often the server also tells who wants the call stopped.
const BEAT_EVERY_MS = 5_000
const SAID_EVERY_MS = 250
const SAID_BYTES_MAX = 64 * 1024
const LEFT_OUT = '…\n'
// After this a lease is over, and with it the right to report.
const REPORT_MAX_MS = 60_000
const ANSWER_TIMEOUT_MS = 70_000
const BACKOFF_FIRST_MS = 500
const BACKOFF_MAX_MS = 30_000

export class ToolError extends Error {
  constructor(code, message, { reason, details = {}, retry_after_s } = {}) {
    super(message)
    this.name = 'ToolError'
    this.code = code
    this.details = reason ? { reason, ...details } : details
    this.retry_after_s = retry_after_s
  }

  toJSON() {
    const { code, message, details, retry_after_s } = this
    return { code, message, ...(Object.keys(details).length ? { details } : {}), retry_after_s }
  }
}

export class ToolResult {
  constructor({ structured, content, is_error = false, app_data }) {
    Object.assign(this, { structured, content, is_error, app_data })
  }
}

export class Refused extends Error {
  constructor(status, told, remedy = '') {
    super(remedy ? `${told}; ${remedy}` : told)
    this.name = 'Refused'
    Object.assign(this, { status, told, remedy })
  }
}

/** Nobody knows whether the server heard it. */
class Unreached extends Error {}

export function tool({ name, description, input, output, risk, mode = 'blocking', secrets = [], more = {}, execute }) {
  if (typeof execute !== 'function') throw new TypeError(`${name} has no function \`execute\``)
  const definition = {
    name,
    description,
    input_schema: input,
    output_schema: output,
    egress_class: 'write',
    hitl: { mode },
    runner: { kind: 'external' },
    ...more,
  }
  if (risk) definition.risk = risk
  if (!Object.keys(input?.properties ?? {}).length) definition.input_less = true
  if (secrets.length) definition.secrets = secrets.map((secret) => ({ name: secret }))
  return Object.freeze({ name, definition, execute })
}

/** The values of secrets: printed, they show their names alone. */
class Auth {
  static of(secrets) {
    const auth = Object.assign(Object.create(Auth.prototype), secrets)
    return Object.freeze(auth)
  }

  [inspect.custom]() {
    return `Auth(${Object.keys(this).join(', ')})`
  }

  toJSON() {
    return Object.keys(this)
  }
}

class Context {
  #said = ''
  #stop = new AbortController()

  constructor({ auth = {}, tenant_id = 'test', call_id = 'c_test', principal = '', agent_id = null } = {}) {
    Object.assign(this, { auth: Auth.of(auth), tenant_id, call_id, principal, agent_id })
  }

  get signal() {
    return this.#stop.signal
  }

  say(text) {
    const line = text.endsWith('\n') ? text : `${text}\n`
    if (Buffer.byteLength(this.#said + line) <= SAID_BYTES_MAX - Buffer.byteLength(LEFT_OUT)) this.#said += line
    else if (!this.#said.endsWith(LEFT_OUT)) this.#said += LEFT_OUT
  }

  throwIfCancelled() {
    if (this.signal.aborted) throw stopped()
  }

  cancel() {
    // A plain abort: what `fetch` throws then says nothing about whether the other side has acted.
    this.#stop.abort()
  }

  takeSaid() {
    const said = this.#said
    this.#said = ''
    return said
  }
}

const stopped = () => new ToolError('POLICY_DENIED', 'it was stopped; nothing was changed', { reason: 'cancelled' })

const failed = (error) => ({ status: 'failed', error: error.toJSON() })

/** What is reported of one call. */
async function run(made, input, ctx, log) {
  let result
  try {
    result = await made.execute(input, ctx)
  } catch (error) {
    if (error instanceof ToolError) return failed(error)
    log(`${made.name} ended with an exception: ${error?.stack ?? error}`)
    // Where the tool writes, nobody knows how far it came.
    const told = new ToolError('SANDBOX_ERROR', `${error?.name ?? 'Error'}: ${error?.message ?? error}`, { reason: 'exception' })
    return { status: 'outcome_unknown', error: told.toJSON() }
  }
  const whole = result instanceof ToolResult ? result : { structured: isObject(result) ? result : { result } }
  try {
    return { status: 'completed', result: JSON.parse(JSON.stringify(whole)) }
  } catch (error) {
    return failed(new ToolError('PROVIDER_ERROR', `the result cannot be written as JSON: ${error.message}`, { reason: 'output_schema' }))
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

class Gate {
  #headers

  constructor(url, key) {
    this.url = `${url.replace(/\/+$/, '')}/api/v1/`
    this.#headers = {
      authorization: `Bearer ${key.trim()}`,
      'content-type': 'application/json',
      'user-agent': `toolgate-typescript/${VERSION}`,
    }
  }

  /** The answer, or null where there is none; throws Refused or Unreached. */
  async post(path, body) {
    let response, text
    try {
      response = await fetch(this.url + path, {
        method: 'POST',
        headers: this.#headers,
        body: JSON.stringify(body),
        // A redirect would show the key to somebody who was not named.
        redirect: 'manual',
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      })
      text = await response.text()
    } catch (error) {
      throw new Unreached(`${this.url} cannot be reached: ${error.cause?.message ?? error.message}`)
    }
    if (response.status === 502 || response.status === 504) throw new Unreached(`status ${response.status}`)
    let value = null
    try {
      value = text ? JSON.parse(text) : null
    } catch {
      if (response.ok) throw new Unreached(`${this.url} answers with something that is not JSON`)
    }
    if (response.ok) return value
    const findings = (value?.details?.findings ?? []).map(({ pointer, message }) => `\n  ${pointer}: ${message}`)
    const told = value?.detail ?? `the server answered with status ${response.status}`
    throw new Refused(response.status, told + findings.join(''), value?.remedy)
  }
}

/** Twice as long each time, and never all workers at once. */
class Backoff {
  #ms = BACKOFF_FIRST_MS

  async wait(signal) {
    const ms = this.#ms * (0.5 + Math.random() / 2)
    this.#ms = Math.min(this.#ms * 2, BACKOFF_MAX_MS)
    await sleep(ms, undefined, { signal }).catch(() => {})
  }
}

class Worker {
  constructor(gate, tools, parallel, log) {
    Object.assign(this, { gate, parallel, log })
    this.tools = new Map(tools.map((made) => [made.name, made]))
    this.stopping = new AbortController()
    this.running = new Map()
  }

  /** Once: finish what was taken. Twice: ask the tools to stop, too. */
  stop = () => {
    if (this.stopping.signal.aborted) for (const ctx of this.running.values()) ctx.cancel()
    this.stopping.abort()
  }

  async serve() {
    const { signal } = this.stopping
    for (const made of this.tools.values()) await this.register(made, signal)
    const wanted = { tools: [...this.tools.keys()].sort(), wait: LEASE_WAIT_S }
    this.log(`serving ${wanted.tools.join(', ')} for ${this.gate.url}`)
    let backoff = new Backoff()
    try {
      while (!signal.aborted) {
        if (this.running.size >= this.parallel) {
          await Promise.race(this.running.keys())
          continue
        }
        // Always waited for: the server may have handed out work already.
        try {
          const leased = await this.gate.post('work/lease', wanted)
          backoff = new Backoff()
          if (leased) this.begin(leased)
        } catch (error) {
          const hopeless = error instanceof Refused && [400, 401, 403].includes(error.status)
          if (hopeless || !(error instanceof Refused || error instanceof Unreached)) throw error
          this.log(`no work: ${error.message}`)
          await backoff.wait(signal)
        }
      }
    } finally {
      await Promise.all(this.running.keys())
    }
  }

  async register(made, signal) {
    const backoff = new Backoff()
    while (!signal.aborted) {
      try {
        const answer = await this.gate.post('tools', { definition: made.definition, apply: true })
        return this.log(`${made.name} ${answer?.version}: ${answer?.action}`)
      } catch (error) {
        if (error instanceof Refused && error.status === 403) {
          return this.log(`${made.name} is taken as it is registered: the key may not register tools`)
        }
        if (!(error instanceof Unreached) && ![429, 503].includes(error.status)) throw error
        this.log(`cannot register: ${error.message}`)
        await backoff.wait(signal)
      }
    }
  }

  begin({ lease_id, call, context }) {
    const { secrets: auth, tenant_id, principal, agent_id } = context
    const ctx = new Context({ auth, tenant_id, call_id: call.call_id, principal, agent_id })
    const work = this.carryOut(`work/${lease_id}/`, call, ctx).finally(() => this.running.delete(work))
    this.running.set(work, ctx)
  }

  async carryOut(path, call, ctx) {
    const ended = new AbortController()
    const beating = this.beat(`${path}heartbeat`, ctx, ended.signal)
    const report = await run(this.tools.get(call.name), call.input, ctx, this.log)
    ended.abort()
    if (await beating) await this.report(`${path}complete`, report)
    else this.log(`${call.name} was lost: nobody would take its report`)
  }

  /** Whether the lease was held to the end. */
  async beat(path, ctx, ended) {
    let last = Date.now()
    for (;;) {
      await sleep(SAID_EVERY_MS, undefined, { signal: ended }).catch(() => {})
      const over = ended.aborted
      const said = ctx.takeSaid()
      if (said || (!over && Date.now() - last >= BEAT_EVERY_MS)) {
        last = Date.now()
        try {
          const kept = await this.gate.post(path, said ? { output: said } : {})
          if (kept?.cancel_requested) ctx.cancel()
        } catch (error) {
          if (error.status === 409) {
            ctx.cancel()
            return false
          }
          this.log(`a heartbeat was not heard: ${error.message}`)
        }
      }
      if (over) return true
    }
  }

  /** Once: a second report is refused, which after a lost answer means that the first came through. */
  async report(path, report) {
    const begun = Date.now()
    const backoff = new Backoff()
    let again = false
    while (Date.now() - begun < REPORT_MAX_MS) {
      try {
        await this.gate.post(path, report)
        return
      } catch (error) {
        if (error.status === 409) {
          if (!again) this.log(`a report came too late: ${error.message}`)
          return
        }
        if (error.status === 400 || error.status === 413) {
          this.log(`a report was refused: ${error.message}`)
          if (report.status !== 'completed' || !report.result) return
          // What it did is done, whether or not its result can be kept.
          report = { status: 'completed' }
          continue
        }
        this.log(`a report was not heard: ${error.message}`)
        again = true
        await backoff.wait()
      }
    }
  }
}

export async function serve({ tools, url, key, parallel = 4, signal, log = (line) => console.error(`toolgate: ${line}`) }) {
  url ??= process.env.TOOLGATE_SERVER
  key ??= process.env.TOOLGATE_KEY
  if (!url || !key) throw new Refused(0, 'no server or no key', 'give both, or set TOOLGATE_SERVER and TOOLGATE_KEY')
  if (!tools?.length) throw new Refused(0, 'there is no tool to serve', 'give at least one in `tools`')
  const worker = new Worker(new Gate(url, key), tools, Math.max(1, parallel), log)
  const signals = ['SIGINT', 'SIGTERM']
  for (const name of signals) process.on(name, worker.stop)
  signal?.addEventListener('abort', worker.stop, { once: true })
  if (signal?.aborted) worker.stop()
  try {
    await worker.serve()
  } finally {
    for (const name of signals) process.off(name, worker.stop)
    signal?.removeEventListener('abort', worker.stop)
  }
}

export async function captureTool(made, input, { auth, signal } = {}) {
  const ctx = new Context({ auth })
  signal?.addEventListener('abort', () => ctx.cancel(), { once: true })
  if (signal?.aborted) ctx.cancel()
  const { result, error } = await run(made, input, ctx, () => {})
  return { output: result?.structured, error, said: ctx.takeSaid() }
}
