// A tool in ten lines: start it with TOOLGATE_SERVER and TOOLGATE_KEY set.
import { serve, tool } from '../../../sdk/typescript/toolgate.js'

const text = { type: 'string', description: 'Text.' }
const sendLetter = tool({
  name: 'sendLetter',
  description: 'Sends a letter. Use it when somebody asks for post. Do not use it for notes; use append_note first.',
  input: { type: 'object', required: ['to', 'subject', 'body'], properties: { to: text, subject: text, body: text } },
  output: { type: 'object', required: ['sent'], properties: { sent: { type: 'boolean', description: 'Whether.' } } },
  risk: 'critical',
  mode: 'blocking',
  execute({ to }, ctx) {
    ctx.say(`sending to ${to}`)
    return { sent: true }
  },
})
await serve({ tools: [sendLetter] })
