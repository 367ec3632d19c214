// A run of an agent: begun on its page, followed to its answer, ended by a limit, gone on with, exported.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const HOSTILE = '<img src=x onerror="document.title=\'owned\'">'
const SCRIPT = {
  version: 1,
  turns: [
    { when: { last_user_contains: 'file' }, call: [{ tool: 'write_file', input: { path: 'a.txt', text: 'hello' } }], repeat: 9 },
    { when: { last_tool: 'write_file' }, say: 'The file is there.', repeat: 9 },
    { when: { last_tool: 'calculator' }, say: `Three lamps cost **59.70**. ${HOSTILE}`, usage: { input_tokens: 1280, output_tokens: 9 }, repeat: 9 },
    { call: [{ tool: 'calculator', input: { expression: '3 * 19.90' } }], usage: { input_tokens: 240, output_tokens: 18 }, repeat: 9 },
  ],
}

async function fill(api) {
  await api('PUT', '/api/v1/providers/play', { name: 'play', kind: 'scripted', script: SCRIPT })
  await api('POST', '/api/v1/agents', { name: 'shop', model: 'play/lamps', toolset: 'open', instructions: 'Answer in one sentence.' })
  await api('PUT', '/api/v1/agents/shop/tools/write_file', {})
}

const timeline = (page) => page.getByRole('list', { name: 'Timeline' }).locator('> li')
const answer = (page) => page.getByRole('region', { name: 'Answer' })

productTest('an agent is run from its page, and its answer shows what it rests on', async ({ server, browser }) => {
  const api = asOwner(server)
  await fill(api)
  await api('POST', '/api/v1/agents', { name: 'bare' })
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/agents/bare`)
  const run = page.getByRole('button', { name: 'Run', exact: true })
  await run.waitFor()
  assert.match((await run.getAttribute('title')) ?? '', /no model/)

  await page.goto(`${server.url}/agents/shop`)
  await page.getByText('scripted', { exact: true }).waitFor()
  await run.click()
  const dialog = page.getByRole('dialog', { name: 'Run shop' })
  assert.equal(await dialog.getByRole('button', { name: 'Run', exact: true }).getAttribute('aria-disabled'), 'true')
  await dialog.getByText('scripted', { exact: true }).waitFor()
  await dialog.getByLabel('Prompt').fill('What do I owe for 3 lamps at 19.90?')
  await dialog.getByLabel('Title').fill('Lamps')
  await assertAccessible(page)
  await picture(page, 'agent-run-new')
  await page.keyboard.press('Control+Enter')
  await page.waitForURL('**/runs/*')
  await page.getByRole('heading', { name: 'Lamps' }).waitFor()
  await answer(page).getByText('59.70').waitFor()
  await answer(page).getByText('scripted', { exact: true }).waitFor()
  await answer(page).getByText('1,520 in').waitFor()
  // What was asked, and the turns with their calls below them.
  await page.getByRole('region', { name: 'Prompt' }).getByText('What do I owe for 3 lamps at 19.90?').waitFor()
  await timeline(page).nth(2).waitFor()
  const lines = await timeline(page).allInnerTexts()
  assert.match(lines[0], /^Turn 1\b[^]*scripted[^]*240 tokens in, 18 out/)
  assert.match(lines[1], /^calculator/)
  assert.match(lines[2], /^Turn 2\b[^]*Three lamps cost \*\*59\.70\*\*/)
  assert.equal(await page.locator('main img').count(), 0)
  await page.getByText('live', { exact: true }).waitFor({ state: 'detached' })
  await assertAccessible(page)
  await picture(page, 'agent-run-light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'agent-run-dark')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'agent-run-phone')
  await page.setViewportSize(DESKTOP)

  // The bundle is the server's own document.
  await page.getByRole('button', { name: 'More for this run' }).click()
  const menu = page.getByRole('menuitem', { name: /Export the replay bundle/ })
  await menu.waitFor()
  await assertAccessible(page)
  const [download] = await Promise.all([page.waitForEvent('download'), menu.click()])
  const bundle = JSON.parse(await readFile(await download.path(), 'utf8'))
  const id = page.url().split('/').at(-1)
  assert.match(download.suggestedFilename(), new RegExp(`${id}\\.json$`))
  assert.deepEqual(bundle, await api('GET', `/api/v1/runs/${id}/bundle`))

  const call = answer(page).getByRole('list', { name: 'Calls it rests on' }).getByRole('link')
  await call.click()
  await page.waitForURL('**/calls/*')
  await page.getByRole('heading', { name: /calculator@/ }).waitFor()
  assert.doesNotMatch(await page.title(), /owned/)
  assert.deepEqual(complaints, [])
})

productTest('a limit that ended a run is named, with what to change', async ({ server, browser }) => {
  const api = asOwner(server)
  await fill(api)
  const own = await api('POST', '/api/v1/agents/shop/runs?wait=20', { prompt: 'What do I owe?', limits: { max_iterations: 1 } })
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/runs/${own.id}`)
  await answer(page).getByText('It came to no answer.').waitFor()
  await answer(page).getByText(/questions to the model: 1 of 1/).waitFor()
  await answer(page).getByText(/given to this run alone/).waitFor()
  await assertAccessible(page)
  await picture(page, 'agent-run-limit')
  await api('PUT', '/api/v1/agents/shop', { name: 'shop', model: 'play/lamps', toolset: 'open', limits: { max_iterations: 1 } })
  const agents = await api('POST', '/api/v1/agents/shop/runs?wait=20', { prompt: 'What do I owe?' })
  await page.goto(`${server.url}/runs/${agents.id}`)
  await answer(page).getByText(/among the limits of the agent/).waitFor()
  await answer(page).getByRole('link', { name: 'Open shop' }).click()
  await page.getByRole('heading', { name: 'shop' }).waitFor()
  assert.deepEqual(complaints, [])
})

productTest('a run that waits is gone on with once somebody decided, and runs under it are a tree', async ({ server, browser }) => {
  const api = asOwner(server)
  await fill(api)
  const run = await api('POST', '/api/v1/agents/shop/runs?wait=20', { prompt: 'Write the file', title: 'Write' })
  assert.equal(run.state, 'waiting_human')
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/runs/${run.id}`)
  await answer(page).getByText('It goes on when a person has decided.').waitFor()
  const child = await api('POST', '/api/v1/runs', { title: `Look ${HOSTILE}`, parent_run_id: run.id })
  await api('POST', '/api/v1/runs', { title: 'Look closer', parent_run_id: child.id })
  const under = page.getByRole('region', { name: 'Runs under it' })
  await under.getByRole('link', { name: 'Look closer' }).waitFor()
  assert.equal(await under.locator('li li').count(), 1)
  // It goes on by itself once somebody has decided: there is nothing to resume, and a way to where that is done.
  assert.equal(await page.getByRole('button', { name: 'Resume' }).count(), 0)
  const waits = page.getByRole('list', { name: 'Waiting for approval' }).getByRole('link', { name: 'Open the approval' })
  assert.match(await waits.getAttribute('href'), /^\/approvals\//)
  await page.getByText('it waits for an approval', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'More for this run' }).click()
  assert.equal(await page.getByRole('menuitem', { name: /Export/ }).getAttribute('aria-disabled'), 'true')
  await page.keyboard.press('Escape')
  await assertAccessible(page)
  await picture(page, 'agent-run-waiting')
  await waits.click()
  await page.waitForURL('**/approvals/*')
  const approve = page.getByTestId('decision').getByRole('button', { name: 'Approve', exact: true })
  await page.waitForFunction((button) => !button.hasAttribute('aria-disabled'), await approve.elementHandle())
  await approve.click()
  const sure = page.getByRole('dialog', { name: 'Approve a critical call?' }).getByRole('button', { name: 'Approve' })
  await page.waitForFunction((button) => !button.hasAttribute('aria-disabled'), await sure.elementHandle())
  await sure.click()
  await page.getByText('Approved by you').first().waitFor()
  await page.goto(`${server.url}/runs/${run.id}`)
  await answer(page).getByText('The file is there.').waitFor()
  assert.deepEqual(complaints.filter((text) => !/Failed to load resource/.test(text)), [])

  const viewer = await api('POST', '/api/v1/users', { name: 'vera', roles: ['viewer'] })
  const seen = await signedInAs(browser, server, viewer.id)
  await seen.page.goto(`${server.url}/agents/shop`)
  const button = seen.page.getByRole('button', { name: 'Run', exact: true })
  await button.waitFor()
  assert.match((await button.getAttribute('title')) ?? '', /agents\.run/)
})

productTest('what a model says is shown as it comes, also of an agent that it asks, and a changed input with both', async ({ server, browser }) => {
  const api = asOwner(server)
  const slow = { version: 1, turns: [
    { when: { last_user_contains: 'clerk' }, call: [{ tool: 'delegateToAgent', input: { agent: 'clerk', prompt: 'What do 3 lamps cost?' } }] },
    { when: { last_tool: 'delegateToAgent' }, call: [{ tool: 'write_file', input: { path: 'a.txt', text: 'hello' } }] },
    { when: { last_tool: 'write_file' }, say: 'It is written, and the clerk has been asked.', chunks: 6, delay_ms: 1500 },
  ] }
  const clerk = { version: 1, turns: [{ say: 'They cost 59.70.' }] }
  await api('PUT', '/api/v1/providers/slow', { name: 'slow', kind: 'scripted', script: slow })
  await api('PUT', '/api/v1/providers/clerk', { name: 'clerk', kind: 'scripted', script: clerk })
  await api('POST', '/api/v1/agents', { name: 'clerk', model: 'clerk/any', toolset: 'open' })
  await api('POST', '/api/v1/agents', { name: 'boss', model: 'slow/any', toolset: 'open' })
  await api('PUT', '/api/v1/agents/boss/tools/write_file', {})
  const run = await api('POST', '/api/v1/agents/boss/runs?wait=20', { prompt: 'Ask the clerk and write it down', title: 'Boss' })
  assert.equal(run.state, 'waiting_human')
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/runs/${run.id}`)
  await timeline(page).filter({ hasText: 'They cost 59.70.' }).waitFor()
  const [card] = (await api('GET', '/api/v1/approvals?state=open')).items
  await api('POST', `/api/v1/approvals/${card.id}/decide`, { decision: 'approve', input: { path: 'b.txt', text: 'good day' } })
  const speaking = timeline(page).filter({ hasText: 'running' }).filter({ hasText: 'It is written' })
  await speaking.waitFor()
  await picture(page, 'agent-run-speaking')
  await answer(page).getByText('the clerk has been asked').waitFor()
  const changed = timeline(page).filter({ hasText: 'input changed' })
  await assertAccessible(page)
  await picture(page, 'agent-run-turns')
  await assertFits(page, PHONE)
  await picture(page, 'agent-run-turns-phone')
  await page.setViewportSize(DESKTOP)
  await changed.getByRole('link', { name: 'write_file' }).click()
  const both = page.getByRole('region', { name: 'Changed input' })
  await both.getByText('a.txt').first().waitFor()
  await both.getByText('b.txt').first().waitFor()
  await assertAccessible(page)
  await picture(page, 'call-changed-input')
  assert.deepEqual(complaints, [])
})
