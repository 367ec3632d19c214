// The pictures of the documentation: every page of the console, light and dark, from a real server with a little life
// in it. `make screenshots` writes them to docs/images.
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DESKTOP, openBrowser, PHONE } from './browser.mjs'
import { asOwner, call, signedIn } from './console.mjs'
import { startServer } from './server.mjs'

const FOLDER = fileURLToPath(new URL('../../docs/images/', import.meta.url))

// What a team of three and two agents did this morning.
async function live(server) {
  const api = asOwner(server)
  for (const [name, roles] of [
    ['ada', ['approver']],
    ['grace', ['author']],
  ]) {
    await api('POST', '/api/v1/users', { name, email: `${name}@example.org`, roles })
  }
  await api('POST', '/api/v1/profiles', { name: 'careful', requires_approval: true, max_cost_per_day: '5' })
  await api('POST', '/api/v1/agents', { name: 'researcher', title: 'Finds and compares', model: 'anthropic/claude' })
  await api('POST', '/api/v1/agents', {
    name: 'writer',
    title: 'Writes what was found',
    model: 'openai/gpt',
    toolset: 'assigned',
  })
  for (const tool of ['echo', 'append_note', 'write_file', 'calculator']) {
    await api('PUT', `/api/v1/agents/writer/tools/${tool}`, tool === 'write_file' ? { profile: 'careful' } : {})
  }
  const keys = {}
  for (const agent of ['researcher', 'writer']) {
    keys[agent] = (await api('POST', '/api/v1/keys', { name: `${agent}-key`, agent })).secret
  }
  const as = (agent, body) => call(server, keys[agent], 'POST', '/api/v1/calls', body).catch(() => undefined)
  const run = await call(server, keys.researcher, 'POST', '/api/v1/runs', { title: 'Compare the offers of March' })
  for (const expression of ['1200 * 1.19', '980 * 1.19', '(1200 - 980) / 1200']) {
    await as('researcher', { tool: 'calculator', input: { expression }, run_id: run.id })
  }
  await as('researcher', { tool: 'now', input: {}, run_id: run.id })
  await as('researcher', { tool: 'calculator', input: { expression: '1 / 0' }, run_id: run.id })
  for (const text of ['hello', 'offers read', 'two of three fit']) await as('writer', { tool: 'echo', input: { text } })
  const waiting = { tool: 'write_file', input: { path: 'offers/march.md', text: '# March\n\nTake the second offer.\n' }, wait: 0 }
  await as('writer', waiting)
  await as('writer', { ...waiting, input: { path: 'offers/april.md', text: '# April\n\nWait for the third.\n' } })
  const agentRun = await ask(api)
  await graph(api)
  await api('PUT', '/api/v1/upstreams/notes', { name: 'notes', title: 'Notes of the team', transport: { kind: 'stdio', entry: 'notes' } })
  const calls = await api('GET', '/api/v1/calls?limit=20')
  const approvals = await api('GET', '/api/v1/approvals?state=open')
  const done = calls.items.find(({ status, tool_key }) => status === 'completed' && tool_key.startsWith('calculator'))
  return { run: run.id, agentRun, call: done?.id, approval: approvals.items[0]?.id }
}

// An agent that runs here, with a script in place of a model.
async function ask(api) {
  const turns = [
    { call: [{ tool: 'calculator', input: { expression: '3 * 19.90' } }], usage: { input_tokens: 240, output_tokens: 18 } },
    { when: { last_tool: 'calculator' }, say: 'Three lamps cost **59.70**.', usage: { input_tokens: 280, output_tokens: 9 } },
  ]
  const prices = { '*': { input: '1.00', cached_input: '0.10', output: '4.00' } }
  await api('PUT', '/api/v1/providers/rehearsal', { name: 'rehearsal', kind: 'scripted', script: { version: 1, turns }, prices })
  await api('PUT', '/api/v1/providers/openai', { name: 'openai', kind: 'openai_chat', secret: 'OPENAI_API_KEY' })
  await api('PUT', '/api/v1/providers/local', { name: 'local', kind: 'openai_chat', base_url: 'http://127.0.0.1:11434/v1' })
  await api('POST', '/api/v1/agents', { name: 'shop', title: 'Answers about prices', model: 'rehearsal/lamps' })
  const asked = { prompt: 'What do I owe for 3 lamps at 19.90?', title: 'Three lamps' }
  return (await api('POST', '/api/v1/agents/shop/runs?wait=20', asked)).id
}

// Offers are compared, and a person chooses where they differ too much.
async function graph(api) {
  const schema = (properties) => ({ type: 'object', properties })
  const edge = (from, handle, to, at, path) => ({ from: { node: from, handle, ...(path ? { path } : {}) }, to: { node: to, handle: at } })
  await api('PUT', '/api/v1/workflows/compare-offers', {
    version: 1,
    name: 'compare-offers',
    description: 'Adds the tax to every offer, and asks a person which one to take.',
    inputs: { type: 'object', required: ['offers'], properties: { offers: { type: 'array', items: { type: 'string' } } } },
    nodes: [
      { id: 'in', kind: 'input' },
      { id: 'any', kind: 'condition', config: { cases: [{ name: 'some', when: 'size(value) > 0' }] } },
      {
        id: 'each',
        kind: 'map',
        title: 'Add the tax',
        config: {
          body: {
            nodes: [
              { id: 'in', kind: 'input' },
              { id: 'count', kind: 'tool', config: { tool: 'calculator@1.0.0' } },
              { id: 'out', kind: 'output', config: { schema: schema({ total: { type: 'number' } }) } },
            ],
            edges: [edge('in', 'item', 'count', 'input/expression'), edge('count', 'output', 'out', 'total', '/result')],
          },
        },
      },
      { id: 'choose', kind: 'human', title: 'Choose one', config: { title: 'Which offer?', schema: schema({ offer: { type: 'string' } }) } },
      { id: 'out', kind: 'output', config: { schema: schema({ offer: { type: 'string' } }) } },
    ],
    edges: [
      edge('in', 'offers', 'any', 'value'),
      edge('any', 'some', 'each', 'items'),
      edge('each', 'items', 'choose', 'value'),
      edge('choose', 'answer', 'out', 'offer', '/offer'),
    ],
  })
}

const PAGES = ({ run, agentRun, call, approval }) => [
  ['home', '/'],
  ['tools', '/tools'],
  ['tool', '/tools/calculator'],
  ['tool-versions', '/tools/calculator?tab=versions'],
  ['approvals', '/approvals'],
  ['approval', `/approvals/${approval}`],
  ['calls', '/calls'],
  ['call', `/calls?call=${call}`],
  ['runs', '/runs'],
  ['run', `/runs/${run}`],
  ['agents', '/agents'],
  ['agent', '/agents/writer'],
  ['agent-run', `/runs/${agentRun}`],
  ['workflows', '/workflows'],
  ['workflow', '/workflows/compare-offers'],
  ['providers', '/providers'],
  ['provider', '/providers/rehearsal'],
  ['upstreams', '/upstreams'],
  ['upstream', '/upstreams/notes'],
  ['people', '/people'],
  ['account', '/account'],
  ['fields', '/admin/fields'],
]

async function shoot(page, name) {
  await page.waitForLoadState('networkidle').catch(() => {})
  await page.evaluate(() => document.fonts.ready)
  await page.waitForTimeout(300)
  await page.screenshot({ path: join(FOLDER, `${name}.png`) })
  process.stdout.write(`${name}\n`)
}

await mkdir(FOLDER, { recursive: true })
// The operator lets the small server of the examples be started.
const operator = await mkdtemp(join(tmpdir(), 'toolgate-screenshots-'))
const entries = join(operator, 'entries.yaml')
const notes = fileURLToPath(new URL('../../examples/upstreams/notes.py', import.meta.url))
await writeFile(entries, `upstreams:\n  notes: {command: [python3, ${JSON.stringify(notes)}]}\n`)
await chmod(entries, 0o600)
const server = await startServer({ TOOLGATE_ENTRIES_FILE: entries })
const browser = await openBrowser()
try {
  const made = await live(server)
  const link = async () => (await asOwner(server)('POST', '/api/v1/users/admin/sign-in-link', {})).url
  for (const colorScheme of ['light', 'dark']) {
    const { page } = await signedIn(browser, { ...server, sign_in_url: await link() }, DESKTOP, { colorScheme })
    for (const [name, path] of PAGES(made)) {
      await page.goto(server.url + path)
      await shoot(page, `${name}-${colorScheme}`)
    }
    await page.keyboard.press('Control+k')
    await page.getByRole('dialog').waitFor()
    await shoot(page, `search-${colorScheme}`)
    await page.context().clearCookies()
    await page.goto(`${server.url}/sign-in`)
    await shoot(page, `sign-in-${colorScheme}`)
    await page.context().close()
  }
  const { page } = await signedIn(browser, { ...server, sign_in_url: await link() }, PHONE)
  for (const [name, path] of PAGES(made).filter(([name]) => ['home', 'tools', 'tool', 'approval', 'calls'].includes(name))) {
    await page.goto(server.url + path)
    await shoot(page, `${name}-phone`)
  }
} finally {
  await browser.close()
  await server.stop()
  await rm(operator, { recursive: true, force: true })
}
