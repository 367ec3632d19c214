// Writes the vectors of the proof tests: calls that a real server ran, as its API proves them.
//   node console/scripts/capture-proof.mjs
import { writeFile } from 'node:fs/promises'
import { asOwner } from '../../tests/browser/console.mjs'
import { startServer } from '../../tests/browser/server.mjs'

const INTO = new URL('../src/lib/proof-vectors.json', import.meta.url)
const CALLS = [
  { tool: 'echo', input: { value: { b: 1, a: ['é', '\u2028', 1.5, 1e-7, null, true] } } },
  { tool: 'append_note', input: { text: 'Ask about the invoice' } },
  { tool: 'append_note', input: { text: 'wrong', title: 'no such member' } },
  { tool: 'calculator', input: { expression: '1/0' } },
  { tool: 'echo', input: { text: 'é \u2028 <b>' } },
  { tool: 'now', input: {} },
]

const server = await startServer()
try {
  const api = asOwner(server)
  const calls = []
  for (const body of CALLS) calls.push(await api('POST', '/api/v1/calls', body))
  const vectors = []
  for (const { id } of calls) {
    const { status, input, output, error } = await api('GET', `/api/v1/calls/${id}`)
    const evidence = await api('GET', `/api/v1/calls/${id}/proof`)
    vectors.push({ shown: { id, status, input, output, error }, evidence })
  }
  await writeFile(INTO, `${JSON.stringify(vectors, null, 2)}\n`)
} finally {
  await server.stop()
}
