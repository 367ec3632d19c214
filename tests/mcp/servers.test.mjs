// Published servers behind the gate: each is read, one tool of each is truly called through the gate, and what the gate
// says to them fits the schemas of the protocol. Beside them are servers that fail in every way there is; none of them
// takes anything away from the rest.
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { gateTest, run } from './gate.mjs'
import { Watch } from './schema.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const node = (name, ...words) => (folder) => [process.execPath, here(`node_modules/@modelcontextprotocol/${name}/dist/index.js`), ...words.map((word) => word.replace('FOLDER', folder))]
const python = (name, ...words) => (folder) => [here(`venv/bin/${name}`), ...words.map((word) => word.replace('FOLDER', folder))]

// How each is started, which tool is called with what, what is in its answer, and which revisions are tried. The server
// `mcp-server-sqlite` is not here: it does not start with the present kit.
const SERVERS = {
  everything: {
    command: node('server-everything', 'stdio'),
    call: ['echo', { message: 'over and out' }, /over and out/],
    eras: ['2025-03-26', '2025-06-18', '2025-11-25'],
  },
  filesystem: { command: node('server-filesystem', 'FOLDER'), call: ['read_text_file', { path: 'FOLDER/note.txt' }, /kept here/] },
  memory: {
    command: node('server-memory'),
    call: ['create_entities', { entities: [{ name: 'Ada', entityType: 'person', observations: ['counts'] }] }, /Ada/],
  },
  thinking: {
    command: node('server-sequential-thinking'),
    call: ['sequentialthinking', { thought: 'so', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }, /thoughtNumber/],
  },
  time: {
    command: python('mcp-server-time', '--local-timezone', 'UTC'),
    call: ['convert_time', { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' }, /21:00/],
    eras: ['2025-06-18', '2026-07-28'],
  },
  git: { command: python('mcp-server-git', '--repository', 'FOLDER'), call: ['git_status', { repo_path: 'FOLDER' }, /note\.txt/] },
  fetch: { command: python('mcp-server-fetch', '--ignore-robots-txt'), call: ['fetch', { url: 'http://127.0.0.1:9/' }, /127\.0\.0\.1/] },
}

const BAD = {
  gone: ['/bin/sh', '-c', 'exit 3'],
  missing: ['/nowhere/at-all'],
}
// These are given up only after a while.
const SLOW = {
  silent: ['/bin/sh', '-c', 'exec sleep 600'],
  noisy: ['/bin/sh', '-c', 'while read -r line; do echo "hello <<>> $line"; done'],
}

gateTest(
  'published servers behind the gate, beside some that fail',
  async (gate) => {
    const { folder } = gate
    const names = Object.keys(SERVERS).flatMap((name) => [name, ...(SERVERS[name].eras ?? []).map((era) => `${name}-${era}`)])
    const save = (name, more, signal) => {
      const spec = { version: 1, name, transport: { kind: 'stdio', entry: name.split('-2')[0] }, ...more }
      return gate.rest('PUT', `/upstreams/${name}`, spec, signal)
    }
    // All at once: one that hangs delays nobody, and is not waited for here either.
    const bad = Promise.all(Object.keys(BAD).map((name) => save(name)))
    const enough = new AbortController()
    for (const name of Object.keys(SLOW)) save(name, {}, enough.signal).catch(() => {})
    bad.catch(() => {})
    const saved = await Promise.all(
      names.map((name) => save(name, name.includes('-2') ? { era: name.slice(name.indexOf('-2') + 1) } : {})),
    )
    for (const one of saved) {
      assert.equal(one.problem, null, `${one.name}: ${one.problem}`)
      assert.ok(one.reading?.tools.length > 0, JSON.stringify(one))
    }
    for (const one of await bad) assert.ok(one.problem, JSON.stringify(one))

    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } })
    const requestInit = { headers: { authorization: `Bearer ${gate.key}` } }
    await client.connect(new StreamableHTTPClientTransport(gate.mcp, { requestInit }))
    try {
      const listed = new Set((await client.listTools()).tools.map((tool) => tool.name))
      for (const name of names) {
        const [tool, given, expected] = SERVERS[name.split('-2')[0]].call
        const wire = `${name}__${tool}`
        assert.ok(listed.has(wire), `${wire} is not among ${[...listed].join()}`)
        await gate.rest('PUT', `/tools/${name}.${tool}/classification`, { egress_class: 'none', reason: 'a test' })
        const said = await client.callTool({ name: wire, arguments: JSON.parse(JSON.stringify(given).replaceAll('FOLDER', folder)) })
        const text = said.content.map((block) => block.text).join('\n')
        assert.match(text, expected, `${name}: ${text}`)
      }
    } finally {
      await client.close()
      enough.abort()
    }

    let revisions = new Set()
    for (const name of names) {
      const watch = new Watch()
      const lines = await readFile(join(folder, `${name.split('-2')[0]}.log`), 'utf8')
      for (const { by, line } of lines.trim().split('\n').map((line) => JSON.parse(line))) watch.heard(by, JSON.parse(line))
      // What servers say is theirs; what we say is ours.
      watch.right('client')
      revisions = revisions.union?.(watch.revisions) ?? new Set([...revisions, ...watch.revisions])
    }
    assert.deepEqual([...revisions].sort(), ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'])
  },
  async () => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'toolgate-servers-')))
    const work = join(folder, 'work')
    await mkdir(work)
    await writeFile(join(work, 'note.txt'), 'what is kept here')
    await run('git', ['init', '-q', work])
    const entries = {}
    for (const [name, { command }] of Object.entries(SERVERS)) {
      const log = join(work, `${name}.log`)
      entries[name] = { command: [process.execPath, here('tee.mjs'), log, ...command(work)], set: { HOME: work, MEMORY_FILE_PATH: join(work, 'memory.json') }, folder: work }
    }
    for (const [name, command] of Object.entries({ ...BAD, ...SLOW })) entries[name] = { command }
    const file = join(folder, 'entries.yaml')
    await writeFile(file, JSON.stringify({ upstreams: entries }), { mode: 0o600 })
    return { settings: { TOOLGATE_ENTRIES_FILE: file }, folder: work, end: () => rm(folder, { recursive: true, force: true }) }
  },
)
