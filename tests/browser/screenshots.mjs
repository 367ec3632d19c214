// The pictures of the documentation: every page of the console, light and dark, from a real server with a little life
// in it. `make screenshots` writes them to docs/images.
import { mkdir } from 'node:fs/promises'
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
  const calls = await api('GET', '/api/v1/calls?limit=20')
  const approvals = await api('GET', '/api/v1/approvals?state=open')
  const done = calls.items.find(({ status, tool_key }) => status === 'completed' && tool_key.startsWith('calculator'))
  return { run: run.id, call: done?.id, approval: approvals.items[0]?.id }
}

const PAGES = ({ run, call, approval }) => [
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
const server = await startServer()
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
}
