// The browser's advice against the server's verdict: every example schema of `@jsonforms/examples` as a tool of a real
// server, values right and wrong for each, and for each value the same answer at the same places.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { asOwner } from './console.mjs'
import { startServer } from './server.mjs'

const CONSOLE = fileURLToPath(new URL('../../console/', import.meta.url))
const VALUES = 12
const SEED = 20_261

// Where the browser knowingly says nothing and leaves it to the server.
const LEFT_TO_THE_SERVER = [
  {
    why: 'the browser backtracks where the server does not: a pattern that could stand still is not tried',
    part: { type: 'string', pattern: '^(a+)+$' },
    value: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!',
  },
  { why: 'a format of our own', part: { type: 'string', format: 'blob' }, value: '/etc/passwd' },
]

test('the browser judges as the server does', { timeout: 300_000 }, async (t) => {
  // Below the console, where what it imports is found.
  const cache = join(CONSOLE, 'node_modules/.cache')
  await mkdir(cache, { recursive: true })
  const folder = await mkdtemp(join(cache, 'oracle-'))
  const server = await startServer()
  try {
    const args = ['build', '--ssr', 'src/form/oracle.ts', '--outDir', folder, '--emptyOutDir', '--logLevel', 'error']
    await promisify(execFile)(process.execPath, [join(CONSOLE, 'node_modules/vite/bin/vite.js'), ...args], { cwd: CONSOLE })
    const oracle = await import(pathToFileURL(join(folder, 'oracle.js')))
    const api = asOwner(server)
    const differences = []
    const counts = { schemas: 0, accepted: 0, refused: 0, exact: 0 }
    for (const [index, { name, schema, data }] of oracle.toolSchemas().entries()) {
      const tool = `example${index}`
      await api('POST', '/api/v1/tools', { definition: definition(tool, schema), apply: true })
      // As the console gets it: in the one dialect that is stored.
      const { input_schema: stored } = await api('GET', `/api/v1/tools/${tool}`)
      counts.schemas += 1
      for (const value of [...(data === undefined ? [] : [data]), ...oracle.values(stored, VALUES, SEED + index)]) {
        const said = await verdict(api, tool, value)
        const advised = oracle.validate(stored, value)
        counts[said.length === 0 ? 'accepted' : 'refused'] += 1
        if (said.length > 0 && places(said) === places(advised)) counts.exact += 1
        const difference = compared(said, advised)
        if (difference) differences.push({ name, difference, value: JSON.stringify(value), said, advised })
      }
    }
    for (const [index, { why, part, value }] of LEFT_TO_THE_SERVER.entries()) {
      const tool = `left${index}`
      const schema = { type: 'object', properties: { value: part } }
      await api('POST', '/api/v1/tools', { definition: definition(tool, schema), apply: true })
      const [said] = await verdict(api, tool, { value })
      assert.equal(said?.pointer, '/value', why)
      assert.deepEqual(oracle.validate(schema, { value }), [], why)
    }
    t.diagnostic(`${counts.schemas} schemas, ${counts.accepted} values accepted, ${counts.refused} refused, ${counts.exact} of them at exactly the same places`)
    assert.deepEqual(differences, [])
    assert(counts.schemas >= 70 && counts.accepted >= 200 && counts.refused >= 200 && counts.exact >= 0.75 * counts.refused, JSON.stringify(counts))
  } finally {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
})

function definition(name, input_schema) {
  return {
    name,
    version: '1.0.0',
    description: 'Takes an example of a form and does nothing with it. Use it in tests only.',
    egress_class: 'none',
    input_schema,
    runner: { kind: 'expression', cel: '{"ok": true}' },
  }
}

async function verdict(api, tool, input) {
  const { error } = await api('POST', `/api/v1/tools/${tool}/test`, { input })
  // How the call goes on once its input was let in is not asked here.
  if (error?.code !== 'VALIDATION_ERROR') return []
  assert(error.details?.violations?.length > 0, JSON.stringify(error))
  return error.details.violations
}

const places = (findings) => [...new Set(findings.map(({ pointer }) => pointer))].sort().join(' ')

// Of a union the server names the whole and the browser the field: one place lies within the other.
function compared(said, advised) {
  if (said.length === 0 !== (advised.length === 0)) return said.length === 0 ? 'only the browser refuses' : 'only the server refuses'
  const meets = (left, right) => left === right || left.startsWith(`${right}/`) || right.startsWith(`${left}/`)
  const unmet = (from, to) => from.filter(({ pointer }) => !to.some((other) => meets(pointer, other.pointer)))
  if (said.length < 20 && unmet(advised, said).length > 0) return 'the browser names a place that the server does not'
  return unmet(said, advised).length > 0 ? 'the server names a place that the browser does not' : undefined
}
