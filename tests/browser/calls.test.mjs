// The history of calls: filters, the drawer, the proof that is checked in the browser, and what others wrote.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, call, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
const HIDDEN = 'pay\u202e\u200bme'

const rows = (page) => page.getByRole('table', { name: 'Calls' }).locator('[role="rowgroup"] [role="row"]')
const drawer = (page) => page.getByRole('dialog')
const part = (page, name) => page.getByRole('region', { name, exact: true })

async function dark(page, body) {
  await page.emulateMedia({ colorScheme: 'dark' })
  await body()
  await page.emulateMedia({ colorScheme: 'light' })
}

// Calls of every kind: completed, failed at validation, with hostile words, waiting, dry.
async function fill(api) {
  const run = await api('POST', '/api/v1/runs', { title: 'Sort the inbox' })
  const step = await api('POST', `/api/v1/runs/${run.id}/steps`, { title: 'Look' })
  const make = (body) => api('POST', '/api/v1/calls', body)
  const hostile = await make({ tool: 'echo', input: { text: `${HOSTILE} ${HIDDEN}` } })
  const wrong = await make({ tool: 'append_note', input: { text: 'x', [HOSTILE]: 1 } })
  const note = await make({ tool: 'append_note', input: { text: 'Ask about the invoice' }, run_id: run.id, step_id: step.id })
  await make({ tool: 'calculator', input: { expression: '(2 + 3) * 7' }, run_id: run.id })
  const dry = await make({ tool: 'append_note', input: { text: 'not really' }, mode: 'dry_run' })
  const waits = await make({ tool: 'write_file', input: LETTER, wait: 0 })
  return { run, hostile, wrong, note, dry, waits }
}

const LETTER = { path: 'invoice.txt', text: 'Your invoice is attached.' }

productTest('calls are listed, narrowed by filters in the address, and say so when there is none', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/calls`)
  await page.getByRole('heading', { name: 'Nothing was called yet' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'calls-empty')

  const { run } = await fill(api)
  // Nothing was shown, so nothing can move: the first calls appear by themselves.
  await rows(page).first().waitFor()
  await page.reload()
  await rows(page).nth(5).waitFor()
  assert.equal(await rows(page).count(), 6)
  await assertAccessible(page)
  await assertFits(page, DESKTOP)
  await picture(page, 'calls-light')
  await dark(page, async () => {
    await assertAccessible(page)
    await picture(page, 'calls-dark')
  })

  const shows = async (search, tools) => {
    await page.goto(`${server.url}/calls?${search}`)
    await rows(page).first().waitFor()
    assert.deepEqual(await rows(page).locator('[role="cell"]:first-child a > span > code').allInnerTexts(), tools, search)
  }
  await shows('tool=echo', ['echo'])
  await shows('status=failed', ['append_note'])
  await shows('error=VALIDATION_ERROR', ['append_note'])
  await shows('approval=pending', ['write_file'])
  await shows(`run=${run.id}`, ['calculator', 'append_note'])
  const today = new Date().toISOString().slice(0, 10)
  await shows(`since=${today}&until=${today}&tool=echo&source=api`, ['echo'])
  await page.goto(`${server.url}/calls?until=2020-01-01`)
  await page.getByRole('heading', { name: 'No call is like that' }).waitFor()
  await assertAccessible(page)
  await page.getByRole('button', { name: 'Show all calls' }).click()
  await rows(page).nth(5).waitFor()
  assert.equal(new URL(page.url()).search, '')

  // By hand, from the keyboard.
  await page.getByRole('combobox', { name: 'Tool' }).fill('calc')
  await page.getByRole('option', { name: /calculator/ }).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.waitForURL(/tool=calculator/)
  // Without going to it, Enter takes the first, which is marked.
  await page.getByRole('combobox', { name: 'Tool' }).fill('ech')
  await page.getByRole('option', { name: /echo/ }).waitFor()
  await picture(page, 'calls-suggested')
  await page.keyboard.press('Enter')
  await page.waitForURL(/tool=echo/)
  assert.equal(await page.getByRole('combobox', { name: 'Tool' }).inputValue(), 'echo')
  await page.getByRole('button', { name: 'Any status Status' }).or(page.getByRole('button', { name: /Status/ })).first().click()
  await picture(page, 'calls-filter')
  await page.getByRole('option', { name: 'completed' }).click()
  await page.waitForURL(/status=completed/)
  await page.getByRole('button', { name: 'Clear' }).click()
  await rows(page).nth(5).waitFor()
  // A tool that is not there is no error: the list is empty, and near names are one press away.
  await page.getByRole('combobox', { name: 'Tool' }).fill('calcualtor')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'No tool called calcualtor' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'calls-no-tool')
  await page.getByRole('button', { name: 'calculator', exact: true }).click()
  await page.waitForURL(/tool=calculator/)
  await rows(page).first().waitFor()
  await page.goto(`${server.url}/calls?agent=nobody-here`)
  await page.getByRole('heading', { name: 'No agent called nobody-here' }).waitFor()
  await page.getByRole('button', { name: 'Any agent', exact: true }).last().click()
  await rows(page).nth(5).waitFor()
  // What the server refuses is shown in its words.
  await page.goto(`${server.url}/calls?status=strange`)
  await page.getByRole('alert').waitFor()
  await assertAccessible(page)
  assert.deepEqual(complaints.filter((text) => !/400 \(Bad Request\)|404 \(Not Found\)/.test(text)), [])
})

productTest('a call opens beside the list with everything about it, and what others wrote stays text', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  const { hostile, wrong, note } = await fill(api)
  await page.goto(`${server.url}/calls`)
  await rows(page).nth(5).waitFor()

  // By keyboard: down to the last row, open, and on to the next by `k`.
  await rows(page).last().getByRole('link').focus()
  await page.keyboard.press('Enter')
  await drawer(page).waitFor()
  await page.waitForURL(new RegExp(`call=${hostile.id}`))
  await part(page, 'Input').getByText('onerror').waitFor()
  assert.match(await part(page, 'Input').innerText(), /U\+202E.*U\+200B/s)
  assert.match(await part(page, 'Output').innerText(), /<script>/)
  assert.equal(await drawer(page).locator('img, script').count(), 0)
  await assertAccessible(page)
  await picture(page, 'call-hostile')
  await page.keyboard.press('k')
  await page.waitForURL(new RegExp(`call=${wrong.id}`))
  await part(page, 'Error').getByText('VALIDATION_ERROR').waitFor()
  assert.match(await part(page, 'Error').innerText(), /<img/)
  assert.match(await part(page, 'Decision').innerText(), /stopped here[\s\S]*Read the input/)
  await assertAccessible(page)
  await picture(page, 'call-failed')
  assert.doesNotMatch(await page.title(), /owned/)
  await page.keyboard.press('Escape')
  await drawer(page).waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).search, '')

  await page.goto(`${server.url}/calls?call=${note.id}`)
  await part(page, 'Decision').getByText('Found the tool').waitFor()
  await part(page, 'Events').getByText('tool.completed').waitFor()
  await picture(page, 'call-light')
  await dark(page, async () => {
    await assertAccessible(page)
    await picture(page, 'call-dark')
  })
  await drawer(page).getByRole('link', { name: 'Full page' }).click()
  await page.waitForURL(new RegExp(`/calls/${note.id}$`))
  await page.getByRole('heading', { name: 'append_note@' }).waitFor()
  assert.match(await page.getByRole('link', { name: 'Run again' }).getAttribute('href'), new RegExp(`/tools/append_note\\?again=${note.id}`))
  await part(page, 'Details').getByRole('link', { name: /^…/ }).waitFor()
  await assertAccessible(page)
  await picture(page, 'call-page')

  await page.goto(`${server.url}/calls/01a1e0f1-a14c-70ab-b61e-94d19e8414e0`)
  await page.getByRole('heading', { name: 'There is no such call' }).waitFor()
  await assertAccessible(page)
  assert.deepEqual(complaints.filter((text) => !/404 \(Not Found\)/.test(text)), [])
})

productTest('the proof of a call is checked in the browser, and a changed byte is found', async ({ server, browser }) => {
  const api = asOwner(server)
  const { note } = await fill(api)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/calls?call=${note.id}`)
  const receipt = part(page, 'Receipt')
  await receipt.getByRole('button', { name: 'Verify' }).click()
  await receipt.getByText('Verified in this browser.').waitFor()
  assert.deepEqual(await outcomes(receipt), ['entry holds', 'digest holds', 'path holds', 'head holds', 'signature holds', 'payloads holds'])
  await assertAccessible(page)
  await receipt.scrollIntoViewIfNeeded()
  await picture(page, 'call-verified')

  await receipt.getByRole('button', { name: 'Tamper' }).click()
  await receipt.getByText(/^Not what was logged/).waitFor()
  const found = await outcomes(receipt)
  assert(found.includes('digest broken') && found.includes('path broken'), found.join())
  assert(found.includes('signature holds'), 'the head itself is not changed')
  assert.equal(await receipt.locator('del').innerText(), 'a')
  await assertAccessible(page)
  await picture(page, 'call-tampered')
  await dark(page, async () => {
    await assertAccessible(page)
    await picture(page, 'call-tampered-dark')
  })
  await receipt.getByRole('button', { name: 'Verify' }).click()
  await receipt.getByText('Verified in this browser.').waitFor()

  // What is saved is what the command line verifies.
  const [download] = await Promise.all([page.waitForEvent('download'), receipt.getByRole('button', { name: 'Save the proof' }).click()])
  assert.match(download.suggestedFilename(), new RegExp(`proof-${note.id}.json`))

  // A server that lies about the call is found out by the same steps.
  await page.route(`**/api/v1/calls/${note.id}`, async (route) => {
    const answer = await (await route.fetch()).json()
    await route.fulfill({ json: { ...answer, output: { notebook: 'main', line: 4711 } } })
  })
  await page.reload()
  await receipt.getByRole('button', { name: 'Verify' }).click()
  await receipt.getByText(/^Not what was logged/).waitFor()
  assert.deepEqual((await outcomes(receipt)).filter((one) => one.endsWith('broken')), ['payloads broken'])
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  assert.deepEqual(complaints, [])
})

productTest('where nobody demonstrates anything, nothing offers to tamper', async ({ server, browser }) => {
  const { note } = await fill(asOwner(server))
  const { page } = await signedIn(browser, server)
  await page.route('**/api/v1/session', async (route) => {
    const { demonstration, ...answer } = await (await route.fetch()).json()
    assert.equal(demonstration, true, 'the server is one with examples')
    await route.fulfill({ json: answer })
  })
  await page.goto(`${server.url}/calls/${note.id}`)
  await part(page, 'Receipt').getByRole('button', { name: 'Verify' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Tamper' }).count(), 0)
  await page.unrouteAll({ behavior: 'ignoreErrors' })
})

productTest('a call that waits leads to its card for who may decide, and is taken back', async ({ server, browser }) => {
  const api = asOwner(server)
  const { waits } = await fill(api)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/calls?call=${waits.id}`)
  const foot = part(page, 'Approval')
  await foot.getByText('waits', { exact: true }).waitFor()
  assert.match(await foot.getByRole('link', { name: 'Decide' }).getAttribute('href'), /^\/approvals\//)
  await assertAccessible(page)
  await picture(page, 'call-waiting')
  await drawer(page).getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('dialog', { name: 'Cancel this call?' }).getByRole('button', { name: 'Cancel the call' }).click()
  await page.getByText('The call is asked to stop.').waitFor()
  await drawer(page).getByText('cancelled', { exact: true }).first().waitFor()
  assert.equal(await foot.getByRole('link', { name: 'Decide' }).count(), 0)

  // Somebody who may only look: their own calls, no decision.
  const member = await api('POST', '/api/v1/users', { name: 'mia', roles: ['member'] })
  const { secret } = await api('POST', '/api/v1/keys', { name: 'mia', owner: member.id })
  const own = await call(server, secret, 'POST', '/api/v1/calls', { tool: 'write_file', input: LETTER, wait: 0 })
  const other = await signedInAs(browser, server, member.id)
  await other.page.goto(`${server.url}/calls`)
  await rows(other.page).first().waitFor()
  assert.equal(await rows(other.page).count(), 1)
  await other.page.goto(`${server.url}/calls/${own.id}`)
  await part(other.page, 'Approval').getByText('Somebody with the role approver decides.').waitFor()
  assert.equal(await other.page.getByRole('link', { name: 'Decide' }).count(), 0)
  // Verifying one's own call needs no right to the whole log.
  assert.deepEqual(complaints, [])
})

productTest('where nobody knows how a call ended, somebody says so with a reason', async ({ server, browser }) => {
  const { note } = await fill(asOwner(server))
  const { page, complaints } = await signedIn(browser, server)
  // A server that was killed at the wrong moment, as its API would tell it.
  await page.route(`**/api/v1/calls/${note.id}`, async (route) => {
    const { output, ...answer } = await (await route.fetch()).json()
    await route.fulfill({ json: { ...answer, status: 'outcome_unknown', error: { code: 'PROVIDER_ERROR', message: 'the server ended while it ran', details: { reason: 'outcome_unknown' } } } })
  })
  let sent
  await page.route(`**/api/v1/calls/${note.id}/settle`, async (route) => {
    sent = route.request().postDataJSON()
    await route.fulfill({ json: {} })
  })
  await page.goto(`${server.url}/calls?call=${note.id}`)
  await drawer(page).getByText('outcome unknown').first().waitFor()
  await drawer(page).getByRole('button', { name: 'Settle' }).click()
  const dialog = page.getByRole('dialog', { name: 'How did it end?' })
  assert.equal(await dialog.getByRole('button', { name: 'Settle' }).getAttribute('aria-disabled'), 'true')
  await dialog.getByLabel('How you know').fill('the line is in the notebook')
  await assertAccessible(page)
  await picture(page, 'call-settle')
  await dialog.getByRole('button', { name: 'Settle' }).click()
  await page.getByText('Settled. Your word is in the log.').waitFor()
  assert.deepEqual(sent, { status: 'completed', reason: 'the line is in the notebook' })
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  assert.deepEqual(complaints, [])
})

productTest('new calls wait behind a bar, and rows that are there only change', async ({ server, browser }) => {
  const api = asOwner(server)
  await fill(api)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/calls`)
  await rows(page).nth(5).waitFor()
  const before = await rows(page).first().innerText()
  for (const text of ['one', 'two']) await api('POST', '/api/v1/calls', { tool: 'echo', input: { text } })
  const bar = page.getByRole('button', { name: '2 new' })
  await bar.waitFor()
  assert.equal(await rows(page).first().innerText(), before, 'a row moved')
  await assertAccessible(page)
  await picture(page, 'calls-new')
  await bar.click()
  await rows(page).nth(7).waitFor()
  assert.equal(await rows(page).count(), 8)
  await bar.waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
})

productTest('it fits a phone: list, filters and call', async ({ server, browser }) => {
  const api = asOwner(server)
  const { note, waits } = await fill(api)
  const { page, complaints } = await signedIn(browser, server, PHONE)
  await page.goto(`${server.url}/calls`)
  await rows(page).nth(5).waitFor()
  await assertFits(page, PHONE)
  await picture(page, 'calls-phone')
  await page.getByRole('button', { name: 'Filters' }).click()
  await assertAccessible(page)
  await assertFits(page, PHONE)
  await picture(page, 'calls-phone-filters')
  await page.goto(`${server.url}/calls?call=${note.id}`)
  await part(page, 'Receipt').getByRole('button', { name: 'Verify' }).click()
  await part(page, 'Receipt').getByText('Verified in this browser.').waitFor()
  await assertAccessible(page)
  await assertFits(page, PHONE)
  await picture(page, 'call-phone')
  await page.goto(`${server.url}/calls/${waits.id}`)
  await part(page, 'Approval').waitFor()
  await assertAccessible(page)
  await assertFits(page, PHONE)
  await picture(page, 'call-phone-waiting')
  assert.deepEqual(complaints, [])
})

const MANY = 6_000

productTest('scrolling through thousands keeps fewer than a hundred rows', async ({ server, browser }) => {
  await fill(asOwner(server))
  const { page, complaints } = await signedIn(browser, server)
  await page.route('**/api/v1/calls?*', async (route) => {
    const query = new URL(route.request().url()).searchParams
    const from = Number(query.get('cursor') ?? 0)
    const limit = Number(query.get('limit'))
    const items = Array.from({ length: Math.min(limit, MANY - from) }, (_, index) => many(from + index))
    await route.fulfill({ json: { items, next_cursor: from + limit < MANY ? String(from + limit) : null } })
  })
  await page.goto(`${server.url}/calls`)
  await rows(page).first().waitFor()
  let most = 0
  for (let turn = 0; turn < 400; turn += 1) {
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight))
    most = Math.max(most, await rows(page).count())
    if (await page.getByText(`${MANY.toLocaleString('en')} calls`).first().isVisible()) break
    await page.waitForTimeout(30)
  }
  await page.getByText(`${MANY.toLocaleString('en')} calls`).first().waitFor()
  for (const share of [1, 0.5, 0.25, 0]) {
    await page.evaluate((part) => window.scrollTo(0, document.documentElement.scrollHeight * part), share)
    await page.waitForTimeout(100)
    most = Math.max(most, await rows(page).count())
  }
  assert(most > 10 && most < 100, `${most} rows are elements`)
  assert.deepEqual(complaints, [])
})

productTest('jumping to a day scrolls to it, through as many pages as it takes, and narrows nothing', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  const old = 1_500
  await page.route('**/api/v1/calls?*', async (route) => {
    const query = new URL(route.request().url()).searchParams
    assert.equal(query.get('until'), null, 'a jump must not narrow')
    const from = Number(query.get('cursor') ?? 0)
    const limit = Number(query.get('limit'))
    // An hour between two calls.
    const items = Array.from({ length: Math.min(limit, old - from) }, (_, index) => {
      const at = new Date(Date.UTC(2026, 10, 15, 12) - (from + index) * 3_600_000).toISOString()
      return { ...many(from + index), created_at: at, started_at: at, completed_at: at }
    })
    await route.fulfill({ json: { items, next_cursor: from + limit < old ? String(from + limit) : null } })
  })
  await page.goto(`${server.url}/calls`)
  await rows(page).first().waitFor()
  await page.getByLabel('Jump to').fill('2026-10-01')
  const first = page.locator('[role="row"]:has(time[datetime="2026-10-01T23:00:00.000Z"])')
  await first.getByRole('link').and(page.locator(':focus')).waitFor()
  const { top } = await first.evaluate((row) => row.getBoundingClientRect())
  assert(top >= 0 && top < 120, `the day is at ${top} px`)
  assert.equal(new URL(page.url()).search, '')
  await assertAccessible(page)
  // What is newer is above.
  await page.keyboard.press('ArrowUp')
  await page.locator('[role="row"]:has(time[datetime="2026-10-02T00:00:00.000Z"])').getByRole('link').and(page.locator(':focus')).waitFor()
  await page.getByLabel('Jump to').fill('2019-01-01')
  await page.getByText(/There is no older call than this/).waitFor()
  assert.deepEqual(complaints, [])
})

function many(index) {
  const id = `${(2 ** 44 - index).toString(16).padStart(12, '0').replace(/^(.{8})/, '$1-')}-7000-8000-000000000000`
  const at = new Date(Date.UTC(2026, 10, 15) - index * 1000).toISOString()
  return {
    id, call_id: `c_${index}`, run_id: id, root_run_id: id, tool_id: id, tool_key: 'echo', tool_name: 'Echo', tool_version: '1.0.0',
    principal: 'local:0', source: 'api', egress_class: 'none', status: index % 7 === 0 ? 'failed' : 'completed', approval_status: 'not_required',
    mode: 'execute', cached: false, created_at: at, started_at: at, completed_at: at,
  }
}

function outcomes(receipt) {
  return receipt.locator('li[data-check]').evaluateAll((all) => all.map(({ dataset }) => `${dataset.check} ${dataset.outcome}`))
}
