// Runs: the list, and one run's timeline as it goes on.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const HOSTILE = '<img src=x onerror="document.title=\'owned\'">'
const LETTER = { path: 'invoice.txt', text: 'Your invoice is attached.' }
const QUESTION = {
  title: 'Which customer?',
  instructions: 'There are two of that name.',
  schema: { type: 'object', required: ['number'], additionalProperties: false, properties: { number: { type: 'integer', title: 'Customer number' } } },
}

const rows = (page) => page.getByRole('table', { name: 'Runs' }).locator('[role="rowgroup"] [role="row"]')
const timeline = (page) => page.getByRole('list', { name: 'Timeline' }).locator('> li')

async function fill(api) {
  const agent = await api('POST', '/api/v1/agents', { name: 'sorter', toolset: 'open' })
  await api('PUT', '/api/v1/agents/sorter/tools/write_file', {})
  const run = await api('POST', '/api/v1/runs', { title: 'Sort the inbox', agent: agent.name, limits: { max_tool_calls: 20 } })
  const make = (body) => api('POST', '/api/v1/calls', { run_id: run.id, agent_id: agent.id, ...body })
  const look = await api('POST', `/api/v1/runs/${run.id}/steps`, { title: `Look ${HOSTILE}` })
  await make({ tool: 'echo', input: { text: 'hello' }, step_id: look.id })
  await make({ tool: 'wait', input: { seconds: 0.3 }, step_id: look.id })
  await make({ tool: 'calculator', input: { expression: '1/0' }, step_id: look.id })
  const act = await api('POST', `/api/v1/runs/${run.id}/steps`, { title: 'Act' })
  await make({ tool: 'calculator', input: { expression: '6 * 7' }, step_id: act.id })
  const under = await api('POST', '/api/v1/runs', { title: 'Write the answer', agent: agent.name, parent_run_id: run.id })
  await api('POST', '/api/v1/calls', { tool: 'echo', input: { text: 'under' }, run_id: under.id, agent_id: agent.id })
  await api('PUT', `/api/v1/runs/${under.id}/state`, { state: 'completed' })
  return { agent, run, under, make }
}

productTest('runs are listed and narrowed down by state and agent', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/runs`)
  await page.getByRole('heading', { name: 'No runs yet' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'runs-empty')

  const { run } = await fill(api)
  await api('POST', '/api/v1/runs', { title: HOSTILE })
  await page.reload()
  await rows(page).nth(2).waitFor()
  assert.match(await rows(page).first().innerText(), /<img/)
  await assertAccessible(page)
  await assertFits(page, DESKTOP)
  await picture(page, 'runs-light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'runs-dark')

  const titles = () => rows(page).locator('[role="cell"]:first-child a > span > span:first-child').allInnerTexts()
  await page.goto(`${server.url}/runs?state=completed`)
  await rows(page).first().waitFor()
  assert.deepEqual(await titles(), ['Write the answer'])
  await page.goto(`${server.url}/runs?agent=sorter&state=running`)
  await rows(page).first().waitFor()
  assert.deepEqual(await titles(), ['Sort the inbox'])
  await page.getByRole('button', { name: 'Clear' }).click()
  await rows(page).nth(2).waitFor()

  const before = await rows(page).first().innerText()
  await api('POST', '/api/v1/runs', { title: 'Another' })
  await page.getByRole('button', { name: '1 new' }).waitFor()
  assert.equal(await rows(page).first().innerText(), before, 'a row moved')
  await page.getByRole('button', { name: '1 new' }).click()
  await rows(page).nth(3).waitFor()
  await page.getByRole('link', { name: 'Sort the inbox' }).click()
  await page.waitForURL(`**/runs/${run.id}`)
  assert.doesNotMatch(await page.title(), /owned/)
  assert.deepEqual(complaints, [])
})

productTest('a run is followed as it goes on: calls, waits, questions, runs under it, its end', async ({ server, browser }) => {
  const api = asOwner(server)
  const { run, make } = await fill(api)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/runs/${run.id}`)
  await page.getByText('live', { exact: true }).waitFor()
  const told = (await timeline(page).allInnerTexts()).map((text) => text.replace(/\s+/g, ' '))
  assert.match(told[0], /Look <img/)
  assert(told.some((text) => text.startsWith('Write the answer')), told.join('\n'))
  assert.equal(await page.locator('main img').count(), 0)
  await assertAccessible(page)
  await picture(page, 'run-light')

  // What happens appears by itself.
  const count = await timeline(page).count()
  await make({ tool: 'write_file', input: LETTER, wait: 0 })
  await timeline(page).nth(count).waitFor()
  await timeline(page).filter({ hasText: 'write_file' }).getByText('pending').waitFor()
  await api('POST', `/api/v1/runs/${run.id}/inputs`, QUESTION)
  const question = page.getByRole('list', { name: 'Questions' })
  await question.getByText('Which customer?').waitFor()
  await page.getByText('waits for a person').first().waitFor()
  await assertAccessible(page)
  await picture(page, 'run-waiting')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'run-waiting-dark')
  await page.emulateMedia({ colorScheme: 'light' })

  // The answer is refused at its field, then taken.
  await question.getByRole('button', { name: 'Answer' }).click()
  const answer = page.getByRole('dialog', { name: 'Which customer?' })
  await answer.getByLabel(/Customer number/).fill('4711')
  await assertAccessible(page)
  await picture(page, 'run-answer')
  await answer.getByRole('button', { name: 'Answer', exact: true }).click()
  await page.getByText('Answered. The run goes on.').waitFor()
  await timeline(page).filter({ hasText: 'Which customer?' }).getByText('answered').waitFor()

  // A call opens beside it.
  await timeline(page).filter({ hasText: 'write_file' }).getByRole('link').click()
  await page.getByRole('dialog', { name: 'Call' }).getByRole('region', { name: 'Approval' }).getByText('waits', { exact: true }).waitFor()
  await page.keyboard.press('Escape')

  await page.getByRole('button', { name: 'Cancel run' }).click()
  const dialog = page.getByRole('dialog', { name: 'Cancel this run?' })
  await dialog.getByLabel('Why').fill('not needed any more')
  await dialog.getByRole('button', { name: 'Cancel the run' }).click()
  await page.getByText('not needed any more').first().waitFor()
  await page.getByText('live', { exact: true }).waitFor({ state: 'detached' })
  assert.equal(await page.getByRole('button', { name: 'Cancel run' }).count(), 0)
  await assertAccessible(page)
  await picture(page, 'run-ended')

  // Ended is ended: the stream is closed and is not opened again.
  await page.waitForTimeout(2500)
  const asked = []
  page.on('request', (request) => { if (request.url().includes('/events')) asked.push(request.url()) })
  await page.waitForTimeout(2000)
  assert.deepEqual(asked, [])
  assert.deepEqual(complaints, [])
})

productTest('a broken stream is opened again from where it was', async ({ server, browser }) => {
  const api = asOwner(server)
  const { run, make } = await fill(api)
  const { page } = await signedIn(browser, server)
  let breaks = 1
  await page.route(`**/api/v1/runs/${run.id}/events*`, async (route) => {
    if (breaks-- <= 0) return route.continue()
    // One whole answer and its end: to the browser that is a break.
    const event = { seq: 1, run_id: run.id, type: 'run.started', at: new Date().toISOString(), actor: 'local:0', data: {} }
    return route.fulfill({ contentType: 'text/event-stream', body: `retry: 200\nid: ${run.id}:1\nevent: run.started\ndata: ${JSON.stringify(event)}\n\n` })
  })
  await page.goto(`${server.url}/runs/${run.id}`)
  await page.getByText('live', { exact: true }).waitFor()
  await page.getByText('step.started').first().waitFor()
  // It went on behind the one event that it had: none is told twice.
  const first = page.getByRole('region', { name: 'Events' }).getByText('run.started')
  assert.equal(await first.count(), 2, 'its own, and that of the run under it')
  const count = await timeline(page).count()
  await make({ tool: 'echo', input: { text: 'after the break' } })
  await timeline(page).nth(count).waitFor()
})

productTest('who may only look at a run cannot end it, and a lone call is a run too', async ({ server, browser }) => {
  const api = asOwner(server)
  const { run } = await fill(api)
  const viewer = await api('POST', '/api/v1/users', { name: 'vera', roles: ['approver'] })
  const { page, complaints } = await signedInAs(browser, server, viewer.id)
  await page.goto(`${server.url}/runs/${run.id}`)
  const button = page.getByRole('button', { name: 'Cancel run' })
  await button.waitFor()
  assert.equal(await button.getAttribute('aria-disabled'), 'true')
  await assertAccessible(page)

  const lone = await api('POST', '/api/v1/calls', { tool: 'echo', input: { text: 'alone' } })
  await page.goto(`${server.url}/runs/${lone.id}`)
  await timeline(page).first().waitFor()
  assert.equal(await timeline(page).count(), 1)
  await page.goto(`${server.url}/runs/01a1e0f1-a14c-70ab-b61e-94d19e8414e0`)
  await page.getByRole('heading', { name: 'There is no such run' }).waitFor()
  await assertAccessible(page)
  assert.deepEqual(complaints.filter((text) => !/404 \(Not Found\)/.test(text)), [])
})

productTest('runs fit a phone', async ({ server, browser }) => {
  const api = asOwner(server)
  const { run, make } = await fill(api)
  await make({ tool: 'write_file', input: LETTER, wait: 0 })
  await api('POST', `/api/v1/runs/${run.id}/inputs`, QUESTION)
  const { page, complaints } = await signedIn(browser, server, PHONE)
  await page.goto(`${server.url}/runs`)
  await rows(page).first().waitFor()
  await assertAccessible(page)
  await assertFits(page, PHONE)
  await picture(page, 'runs-phone')
  await page.goto(`${server.url}/runs/${run.id}`)
  await timeline(page).first().waitFor()
  await page.getByRole('list', { name: 'Questions' }).waitFor()
  await assertAccessible(page)
  await assertFits(page, PHONE)
  await picture(page, 'run-phone')
  assert.deepEqual(complaints, [])
})
