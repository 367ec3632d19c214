// The first page: what needs somebody, what happened, what it cost, what is stopped; and the first steps.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, call, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const part = (page, name) => page.getByRole('region', { name, exact: true })

async function both(page, name) {
  await assertAccessible(page)
  await assertFits(page, DESKTOP)
  await picture(page, `${name}-light`)
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, `${name}-dark`)
  await page.emulateMedia({ colorScheme: 'light' })
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, `${name}-phone`)
  await page.setViewportSize(DESKTOP)
}

productTest('a new install says what to do first, and ticks it off', async ({ server, browser }) => {
  const owner = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  const steps = part(page, 'First steps')
  await steps.getByText('0 of 3 done').waitFor()
  await part(page, 'What needs you').getByText('Nothing waits for you.').waitFor()
  await part(page, 'Recent failures').getByText('No call has failed.').waitFor()
  await both(page, 'home-new')

  await owner('POST', '/api/v1/calls', { tool: 'calculator', input: { expression: '6*7' } })
  await steps.getByText('1 of 3 done').waitFor()
  await owner('POST', '/api/v1/agents', { name: 'scribe' })
  await owner('PUT', '/api/v1/agents/scribe/tools/write_file', {})
  const { secret } = await owner('POST', '/api/v1/keys', { name: 'scribe', agent: 'scribe' })
  await call(server, secret, 'POST', '/api/v1/calls', { tool: 'write_file', input: { path: 'a.txt', text: 'hi' }, wait: 0 })
  await part(page, 'What needs you').getByRole('link', { name: /write_file/ }).waitFor()
  await steps.waitFor({ state: 'detached' })
  await part(page, 'What needs you').getByRole('link', { name: /write_file/ }).click()
  await page.getByRole('heading', { name: 'write_file@1.0.0' }).waitFor()
  assert.deepEqual(complaints, [])
})

productTest('it shows what needs somebody, and answers in place', async ({ server, browser }) => {
  const owner = asOwner(server)
  const evil = '<img src=x onerror=alert(1)>'
  await owner('POST', '/api/v1/agents', { name: 'scribe' })
  await owner('PUT', '/api/v1/agents/scribe/tools/write_file', {})
  const { secret } = await owner('POST', '/api/v1/keys', { name: 'scribe', agent: 'scribe' })
  const as = (method, path, body) => call(server, secret, method, path, body)
  await as('POST', '/api/v1/calls', { tool: 'write_file', input: { path: 'a.txt', text: 'hi' }, wait: 0 })
  for (let count = 0; count < 4; count += 1) await as('POST', '/api/v1/calls', { tool: 'calculator', input: { expression: `${count}+1` } })
  await as('POST', '/api/v1/calls', { tool: 'calculator', input: { expression: '1/0' } })
  await owner('PUT', '/api/v1/kill-switches', { scope: 'tool', name: 'now', on: true, reason: 'not now' })
  await as('POST', '/api/v1/calls', { tool: 'now', input: {} })
  await owner('PUT', '/api/v1/kill-switches', { scope: 'tool', name: 'now', on: false, reason: 'go on' })
  const run = await owner('POST', '/api/v1/runs', { title: 'Ticket 42' })
  const question = await owner('POST', `/api/v1/runs/${run.id}/inputs`, {
    title: `Which lamp? ${evil}`,
    schema: { type: 'object', required: ['lamp'], additionalProperties: false, properties: { lamp: { type: 'string', enum: ['hall', 'desk'] } } },
  })
  const { page, complaints } = await signedIn(browser, server)
  const needs = part(page, 'What needs you')
  await needs.getByText('decide').waitFor()
  await needs.getByText(evil).waitFor()
  await part(page, 'Recent failures').getByRole('link', { name: /calculator/ }).waitFor()
  await page.getByRole('img', { name: /calls in the last 24 hours, 1 of them failed, 1 refused/ }).waitFor()
  // What was refused is not among the failures, and each number leads to what it counts.
  assert.equal(await part(page, 'Recent failures').getByRole('listitem').count(), 1)
  const activity = part(page, 'Calls, 24 hours')
  for (const [words, tools] of [['1 failed', ['calculator']], ['1 refused', ['now']], ['1 pending', ['write_file']]]) {
    await activity.getByRole('link', { name: words }).click()
    await page.getByRole('heading', { name: 'Calls', level: 1 }).waitFor()
    await page.getByText('1 call', { exact: true }).waitFor()
    assert.deepEqual(await page.locator('[role="rowgroup"] [role="cell"]:first-child a > span > code').allInnerTexts(), tools, words)
    if (words === '1 refused') await page.getByRole('table').getByText('denied', { exact: true }).waitFor()
    await page.goBack()
    await activity.waitFor()
  }
  await part(page, 'Cost').getByRole('link', { name: 'calculator' }).waitFor()
  await part(page, 'Cost').getByRole('link', { name: 'scribe' }).waitFor()
  await owner('PUT', '/api/v1/kill-switches', { scope: 'tool', name: 'echo', on: true, reason: `it echoes ${evil}` })
  await owner('POST', '/api/v1/agents', { name: 'old' })
  await owner('PUT', '/api/v1/agents/old/state', { state: 'frozen' })
  await page.reload()
  const stopped = part(page, 'What is stopped')
  await stopped.getByText(`it echoes ${evil}`).waitFor()
  await stopped.getByText('is frozen').waitFor()
  await page.getByRole('img', { name: /calls in the last 24 hours/ }).waitFor()
  await both(page, 'home')
  // A server that was started for development says so with every answer.
  await page.route('**/api/v1/session', async (route) => {
    const response = await route.fetch()
    return route.fulfill({ response, headers: { ...response.headers(), 'toolgate-warning': 'development bypass' } })
  })
  await page.reload()
  await page.getByText('Development bypass.').waitFor()
  await assertAccessible(page)
  await picture(page, 'home-bypass')
  await page.unrouteAll({ behavior: 'wait' })

  await needs.getByRole('button', { name: 'Answer…' }).click()
  await needs.getByRole('group', { name: 'Input' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'home-answer')
  await needs.getByRole('button', { name: 'Send the answer' }).click()
  await needs.getByRole('alert').first().waitFor()
  await needs.getByRole('button', { name: /lamp/i }).or(needs.getByRole('radio', { name: 'desk' })).first().click()
  await page.getByRole('option', { name: 'desk' }).or(page.getByRole('radio', { name: 'desk' })).first().click({ force: true })
  await needs.getByRole('button', { name: 'Send the answer' }).click()
  await needs.getByText(evil).waitFor({ state: 'detached' })
  assert.deepEqual((await owner('GET', `/api/v1/inputs/${question.id}`)).answer, { lamp: 'desk' })
  assert.deepEqual(complaints.filter((text) => !text.startsWith('error: Failed to load resource')), [])
})

productTest('whoever may little sees their own, and no more is asked of the server', async ({ server, browser }) => {
  await asOwner(server)('POST', '/api/v1/users', { name: 'vera', roles: ['viewer'] })
  const { page, complaints } = await signedInAs(browser, server, 'vera')
  await part(page, 'What needs you').getByText('Nothing waits for you.').waitFor()
  assert.equal(await part(page, 'First steps').count(), 0)
  await assertAccessible(page)
  await picture(page, 'home-viewer')
  assert.deepEqual(complaints, [])
})

// A worker takes a call that changes something, and is never heard of again: a minute later nobody knows.
productTest('a call of which nobody knows how it ended is settled in place', async ({ server, browser }) => {
  const owner = asOwner(server)
  const definition = {
    name: 'moveLamp', version: '1.0.0', title: 'Move a lamp', description: 'Moves a lamp. Use it to move one. Do not use it for chairs.',
    category: 'system', egress_class: 'write', runner: { kind: 'external' },
    input_schema: { type: 'object', additionalProperties: false, properties: {} },
    output_schema: { type: 'object', additionalProperties: false, properties: {} },
  }
  await owner('POST', '/api/v1/tools', { definition, apply: true })
  await owner('POST', '/api/v1/users', { name: 'desk', kind: 'service', roles: ['service'] })
  const { secret } = await owner('POST', '/api/v1/keys', { name: 'desk', owner: 'desk', scopes: ['service'] })
  const lost = await owner('POST', '/api/v1/calls', { tool: 'moveLamp', input: {}, wait: 0 })
  await owner('POST', `/api/v1/approvals/${lost.id}/decide`, { decision: 'approve' })
  await call(server, secret, 'POST', '/api/v1/work/lease', { tools: ['moveLamp'], wait: 10 })
  const { page, complaints } = await signedIn(browser, server)
  const needs = part(page, 'What needs you')
  await needs.getByText('outcome unknown').waitFor({ timeout: 100_000 })
  await needs.getByRole('button', { name: 'Settle…' }).click()
  await needs.getByRole('textbox', { name: 'How do you know?' }).fill('the line is in the notebook')
  await assertAccessible(page)
  await picture(page, 'home-settle')
  await needs.getByRole('button', { name: 'It happened' }).click()
  await needs.getByText('outcome unknown').waitFor({ state: 'detached' })
  assert.equal((await owner('GET', `/api/v1/calls/${lost.id}`)).status, 'completed')

  assert.deepEqual(complaints, [])
})
