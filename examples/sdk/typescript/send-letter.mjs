// A worker of `examples/tools/sendLetter`: start it with TOOLGATE_SERVER and TOOLGATE_KEY set.
import { serve, tool } from '../../../sdk/typescript/toolgate.js'

const object = (properties) => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
})

const sendLetter = tool({
  name: 'sendLetter',
  description:
    'Sends a letter on paper to one address. Use it where the law or the recipient wants paper. Do not use it where a mail is ' +
    'enough (use `send_email` first), and never guess an address.',
  input: object({
    to: { type: 'string', description: 'The name and the address, line by line.', minLength: 10, maxLength: 500 },
    body: { type: 'string', description: 'The letter as plain text.', minLength: 1, maxLength: 100000 },
  }),
  output: object({ pages: { type: 'integer', description: 'How many pages it has.', minimum: 1 } }),
  risk: 'critical',
  more: { timeout_ms: 30000 },
  execute({ to, body }, ctx) {
    ctx.say(`printing for ${to.split('\n')[0]}`)
    return { pages: 1 + Math.floor(body.length / 3000) }
  },
})

await serve({ tools: [sendLetter] })
