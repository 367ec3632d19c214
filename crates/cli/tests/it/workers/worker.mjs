// The worker of the tests, in JavaScript: the same two tools as in the other languages.

import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { pathToFileURL } from 'node:url'

const { ToolError, serve, tool } = await import(pathToFileURL(process.argv[2]))

const object = (properties) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
})

const countWords = tool({
  name: 'countWords',
  description: 'Counts the words of a text. Use it when a length matters. Do not use it for letters.',
  input: object({ text: { type: 'string', description: 'The text to count in.' } }),
  output: object({ words: { type: 'integer', description: 'How many words there are.' } }),
  execute({ text }, ctx) {
    ctx.say('counting')
    return { words: text.split(/\s+/).length }
  },
})

const checkThings = tool({
  name: 'checkThings',
  description: 'Tries one thing that a tool may do. Use it when a worker is tested. Do not use it otherwise.',
  input: object({
    how: { type: 'string', enum: ['context', 'leak', 'error', 'crash', 'shape', 'wait'], description: 'What to try.' },
  }),
  output: object({ text: { type: 'string', description: 'What came of it.' } }),
  risk: 'sensitive',
  mode: 'blocking',
  secrets: ['WORKER_KEY'],
  async execute({ how }, ctx) {
    if (how === 'context') return { text: `${ctx.tenant_id} ${Object.keys(ctx.auth)} ${inspect(ctx)}` }
    if (how === 'leak') {
      ctx.say(ctx.auth.WORKER_KEY)
      return { text: ctx.auth.WORKER_KEY }
    }
    if (how === 'error') throw new ToolError('RATE_LIMIT', 'too many letters today', { reason: 'upstream', retry_after_s: 7 })
    if (how === 'crash') throw new Error('something broke')
    if (how === 'shape') return { words: 3 }
    ctx.say('waiting')
    await sleep(120_000, undefined, { signal: ctx.signal }).catch(() => {})
    ctx.throwIfCancelled()
    return { text: 'nobody stopped it' }
  },
})

await serve({ tools: [countWords, checkThings] })
