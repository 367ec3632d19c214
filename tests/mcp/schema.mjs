// Checks messages with the schemas of the protocol: what each side says, of the revision that is spoken, by the request
// that it answers.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

export const REVISIONS = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28']
const MODERN = '2026-07-28'
const VERSION = 'io.modelcontextprotocol/protocolVersion'

// What answers a method.
const RESULTS = {
  initialize: 'InitializeResult',
  'server/discover': 'DiscoverResult',
  'tools/list': 'ListToolsResult',
  'tools/call': 'CallToolResult',
  'prompts/list': 'ListPromptsResult',
  'prompts/get': 'GetPromptResult',
  'resources/list': 'ListResourcesResult',
  'resources/read': 'ReadResourceResult',
  'resources/templates/list': 'ListResourceTemplatesResult',
  'completion/complete': 'CompleteResult',
  'subscriptions/listen': 'SubscriptionsListenResult',
  'elicitation/create': 'ElicitResult',
  'sampling/createMessage': 'CreateMessageResult',
  'roots/list': 'ListRootsResult',
  'tasks/list': 'ListTasksResult',
}
// Of an extension, whose schema is not here.
const ELSEWHERE = new Set(['tasks/get', 'tasks/update', 'tasks/cancel', 'tasks/result'])

const compiled = new Map()
function validator(revision, name) {
  if (!compiled.has(revision)) {
    const schema = JSON.parse(readFileSync(new URL(`schema/${revision}.json`, import.meta.url), 'utf8'))
    const Kind = schema.$defs ? Ajv2020 : Ajv
    const ajv = new Kind({ strict: false, allErrors: false, validateFormats: true })
    formats.default(ajv)
    ajv.addFormat('byte', true)
    ajv.addSchema(schema, 'protocol')
    compiled.set(revision, { ajv, at: schema.$defs ? '$defs' : 'definitions', names: schema.$defs ?? schema.definitions })
  }
  const { ajv, at, names } = compiled.get(revision)
  return names[name] ? ajv.getSchema(`protocol#/${at}/${name}`) : undefined
}

// One conversation, or one side's many: which revision is spoken, and what was asked. `heard` takes each message.
export class Watch {
  wrong = []
  count = 0
  revisions = new Set()
  methods = new Set()
  #asked = new Map()
  #revision

  // `by` is 'client' or 'server'. `revision` is of the conversation, where it is known. `within` tells requests apart that
  // have the same id: what is answered in the same exchange is meant first.
  heard(by, message, revision, within = '') {
    if (Array.isArray(message)) {
      for (const one of message) this.heard(by, one, revision, within)
      return
    }
    this.count += 1
    const other = by === 'client' ? 'server' : 'client'
    if (message.method !== undefined) {
      const said = message.params?._meta?.[VERSION]
      const spoken = said ?? revision ?? this.#revision ?? this.#offered(message)
      this.methods.add(message.method)
      if (message.id !== undefined) {
        for (const place of new Set([within, ''])) this.#asked.set(`${place} ${by} ${message.id}`, { message, spoken })
      }
      this.#check(by, message, spoken, (message.id === undefined ? 'notification' : 'request'))
      return
    }
    const key = [within, ''].map((place) => `${place} ${other} ${message.id}`).find((key) => this.#asked.has(key))
    const { message: asked, spoken } = this.#asked.get(key) ?? {}
    this.#asked.delete(key)
    if (asked?.method === 'initialize' && message.result) this.#revision = message.result.protocolVersion
    this.#check(by, message, asked?.method === 'initialize' ? this.#revision : spoken, 'answer', asked)
  }

  // The first words of a conversation say what they would like to speak.
  #offered(message) {
    const wanted = message.params?.protocolVersion
    return REVISIONS.includes(wanted) ? wanted : '2025-11-25'
  }

  #check(by, message, revision, what, asked) {
    if (!REVISIONS.includes(revision)) return
    this.revisions.add(revision)
    for (const name of names(by, message, revision, what, asked)) {
      const valid = validator(revision, name)
      if (valid === undefined) {
        this.wrong.push(`${by}, ${revision}: there is no ${name}: ${short(message)}`)
      } else if (!valid(what === 'answer' && !('error' in message) && name.endsWith('Result') ? message.result : message)) {
        this.wrong.push(`${by}, ${revision}, ${name}: ${JSON.stringify(valid.errors.at(-1))}: ${short(message)}`)
      }
    }
  }

  // All that was said is right, or all that one side said.
  right(by) {
    assert.deepEqual(this.wrong.filter((wrong) => by === undefined || wrong.startsWith(`${by},`)), [])
    assert.ok(this.count > 0, 'nothing was heard')
  }
}

function names(by, message, revision, what, asked) {
  const isNew = revision === MODERN || revision === '2025-11-25'
  if (what === 'request') {
    if (ELSEWHERE.has(message.method)) return ['JSONRPCRequest']
    return ['JSONRPCRequest', by === 'client' ? 'ClientRequest' : 'ServerRequest']
  }
  if (what === 'notification') {
    return ['JSONRPCNotification', by === 'client' ? 'ClientNotification' : 'ServerNotification']
  }
  if ('error' in message) return [isNew ? 'JSONRPCErrorResponse' : 'JSONRPCError']
  const answer = isNew ? 'JSONRPCResultResponse' : 'JSONRPCResponse'
  if (ELSEWHERE.has(asked?.method) || message.result?.resultType === 'task') return [answer]
  if (message.result?.resultType === 'input_required') return [answer, 'InputRequiredResult']
  return [answer, RESULTS[asked?.method] ?? 'Result']
}

const short = (message) => JSON.stringify(message).slice(0, 2000)

// The messages of a body, by its kind.
export function messagesOf(type, text) {
  if (type?.startsWith('application/json')) return text === '' ? [] : [JSON.parse(text)]
  if (!type?.startsWith('text/event-stream')) return []
  // What comes after the last empty line was cut off.
  const events = text.split(/\r?\n\r?\n/).slice(0, -1).map((event) => event.split(/\r?\n/))
  const data = events.map((lines) => lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart()))
  return data.map((lines) => lines.join('\n')).filter((text) => text !== '').map((text) => JSON.parse(text))
}
