// The library of tools and the page of a tool: find, run, confirm, look back, compare, read.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const row = (page, name) => page.getByRole('row').filter({ has: page.locator(`a[href="/tools/${name}"]`) })
const rowCount = (page) => page.getByRole('row').count().then((count) => count - 1)
const result = (page) => page.getByRole('region', { name: 'Result' })
const open = async (page, server, path) => {
  await page.goto(`${server.url}${path}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
}
// The browser itself reports what the server refused; anything else is ours.
const ours = (complaints) => complaints.filter((text) => !text.startsWith('error: Failed to load resource'))

async function dark(page, name) {
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, `${name}-dark`)
  await page.emulateMedia({ colorScheme: 'light' })
}

async function lookedAt(page, name) {
  await assertAccessible(page)
  await picture(page, `${name}-light`)
  await dark(page, name)
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, `${name}-phone`)
  await assertFits(page, DESKTOP)
}

const definition = (name, change = {}) => ({
  name,
  title: name,
  description: 'Does what a test needs. Use it in tests. Do not use it elsewhere.',
  egress_class: 'write',
  input_schema: {
    type: 'object',
    additionalProperties: false,
    properties: { text: { type: 'string', description: 'Any text.' } },
  },
  runner: { kind: 'external' },
  ...change,
})

// Nothing here keeps records.
const unrunnable = definition('writePoem', {
  egress_class: 'none',
  changes_state: true,
  secrets: [{ name: 'MODEL_KEY', purpose: 'Signs in to the model' }],
  runner: { kind: 'record', entity_type: 'poem' },
})

const register = (api, one) => api('POST', '/api/v1/tools', { definition: one, apply: true })

productTest('the library is searched and filtered, and says what to expect of a call', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('PUT', '/api/v1/tools/now/state', { state: 'deprecated', message: 'Ask a clock' })
  await api('PUT', '/api/v1/tools/echo/enabled', { enabled: false })
  await api('PUT', '/api/v1/kill-switches', { scope: 'tool', name: 'calculator', on: true, reason: 'It miscounts' })
  await api('PUT', '/api/v1/secrets/org/SIGNING_KEY', { value: 'a key for the example', tools: ['signText'] })
  await register(api, unrunnable)
  const critical = (await api('GET', '/api/v1/tools?risk=critical&limit=500')).items.length
  const { page, complaints } = await signedIn(browser, server)
  // Tall enough for every row: what is out of sight is not in the page.
  await page.setViewportSize({ width: 1280, height: 6000 })
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Tools' }).click()
  await row(page, 'wait').waitFor()

  assert.match(await row(page, 'searchTickets').innerText(), /missing key/)
  assert.doesNotMatch(await row(page, 'writePoem').innerText(), /missing key/, 'of what cannot run more is said than that')
  assert.match(await row(page, 'signText').innerText(), /using organisation key/)
  assert.match(await row(page, 'write_file').innerText(), /asks a person/)
  assert.match(await row(page, 'writePoem').innerText(), /no runner here/)
  assert.doesNotMatch(await row(page, 'send_email').innerText(), /no runner here/)
  assert.match(await row(page, 'calculator').innerText(), /stopped/)
  assert.equal(await row(page, 'now').count(), 0, 'a deprecated tool is listed without being asked for')
  assert.equal(await row(page, 'echo').count(), 0, 'a tool that is switched off is listed')
  await lookedAt(page, 'tools')

  await page.getByText('Deprecated too (1)').click()
  // A long list comes page by page: what is looked for is asked for.
  await page.getByRole('searchbox').fill('now')
  assert.match(await row(page, 'now').innerText(), /deprecated/)
  await page.getByRole('searchbox').fill('')
  await page.waitForURL((url) => !url.searchParams.has('q'))
  await page.getByRole('button', { name: 'Clear' }).click()
  await row(page, 'now').waitFor({ state: 'detached' })

  // Filters are in the address, and the address is a filter.
  await page.getByRole('button', { name: /Risk/ }).click()
  await page.getByRole('option', { name: `critical (${critical})` }).click()
  await row(page, 'wait').waitFor({ state: 'detached' })
  assert.equal(new URL(page.url()).search, '?risk=critical')
  // Rows leave one by one on a slow machine.
  for (let looks = 0; looks < 100 && (await rowCount(page)) !== critical; looks++) await page.waitForTimeout(100)
  assert.equal(await rowCount(page), critical)
  // Each choice says how many it leaves, together with what is chosen elsewhere.
  for (const [filter, told] of [['Class', ['stays inside (0)', 'reads outside (0)', `changes things outside (${critical})`]], ['Origin', ['MCP server (0)']], ['Kind', ['api (']], ['Category', ['(1)']]]) {
    await page.getByRole('button', { name: new RegExp(filter) }).click()
    const options = (await page.getByRole('option').allInnerTexts()).join('\n')
    for (const words of told) assert(options.includes(words), `${filter}: ${words} is not in ${options}`)
    await page.keyboard.press('Escape')
  }
  await picture(page, 'tools-filtered')
  await open(page, server, '/tools?category=data&class=read_only&origin=tenant&kind=api')
  await row(page, 'getExchangeRate').waitFor()
  assert.equal(await rowCount(page), 1)
  await open(page, server, '/tools?state=off')
  await row(page, 'echo').waitFor()
  assert.match(await row(page, 'echo').innerText(), /switched off/)

  // By words and from the keyboard: `/`, words, down, Enter.
  await open(page, server, '/tools')
  await row(page, 'calculator').waitFor()
  await page.locator('h1').click()
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keys' }).getByText('search the library').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.keyboard.press('/')
  await page.keyboard.type('send an email')
  await page.waitForURL((url) => url.searchParams.get('q') === 'send an email')
  await row(page, 'calculator').waitFor({ state: 'detached' })
  assert.equal(await page.getByRole('row').nth(1).locator('a').first().getAttribute('href'), '/tools/send_email')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('ArrowUp')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Send an e-mail', level: 1 }).waitFor()
  await page.goBack()

  await page.getByRole('searchbox').fill('zzqxvvk')
  await page.getByRole('heading', { name: 'Nothing fits “zzqxvvk”' }).waitFor()
  await lookedAt(page, 'tools-nothing')
  await page.getByRole('button', { name: 'Show all tools' }).click()
  await row(page, 'calculator').waitFor()

  await page.setViewportSize(PHONE)
  await page.getByRole('button', { name: 'Filters' }).click()
  await picture(page, 'tools-phone-filters')
  await assertAccessible(page)
  await assertFits(page, PHONE)
  assert.deepEqual(ours(complaints), [])
})

productTest('a tool is run, says how far it is, is cancelled and run again', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/wait')
  await page.getByText('It runs at once; nobody is asked.').waitFor()
  await lookedAt(page, 'tool-run')

  await page.getByRole('spinbutton', { name: /Seconds/ }).or(page.getByLabel(/Seconds/)).first().fill('2.2')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('log', { name: 'Live output' }).filter({ hasText: '1 of 2.2 s' }).waitFor()
  await picture(page, 'tool-running')
  await result(page).getByText('completed').waitFor()
  assert.match(await result(page).innerText(), /2\.2/)
  assert.match(await page.getByRole('log', { name: 'Live output' }).innerText(), /1 of 2.2 s\s+2 of 2.2 s/)
  await lookedAt(page, 'tool-ran')

  // A reload finds the call, its input and its result again.
  await page.reload()
  await result(page).getByText('completed').waitFor()
  assert.equal(await page.getByLabel(/Seconds/).first().inputValue(), '2.2')

  await page.getByLabel(/Seconds/).first().fill('50')
  await result(page).getByRole('button', { name: 'Run again' }).click()
  await result(page).getByRole('button', { name: 'Cancel' }).click()
  await result(page).getByRole('status').filter({ hasText: 'cancelled' }).waitFor()

  // History, live: what comes waits behind a bar.
  await page.getByRole('tab', { name: 'History' }).click()
  await page.getByRole('row').filter({ hasText: 'cancelled' }).waitFor()
  assert.equal(await rowCount(page), 2)
  await asOwner(server)('POST', '/api/v1/calls', { tool: 'wait', input: { seconds: 0.1 } })
  await page.getByRole('button', { name: '1 new' }).waitFor()
  assert.equal(await rowCount(page), 2)
  await lookedAt(page, 'tool-history')
  await page.getByRole('button', { name: '1 new' }).click()
  await page.getByRole('row').nth(3).waitFor()

  await page.getByRole('link', { name: 'Run again with this input' }).first().click()
  await page.getByLabel(/Seconds/).first().waitFor()
  assert.equal(await page.getByLabel(/Seconds/).first().inputValue(), '0.1')
  assert.deepEqual(ours(complaints), [])
})

productTest('what the browser or the server refuses stands at the field', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/wait')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  const summary = page.getByRole('group', { name: /to correct/ })
  await summary.waitFor()
  assert.equal(await page.getByLabel(/Seconds/).first().getAttribute('aria-invalid'), 'true')
  // Once, at the field; the line on top only leads there.
  assert.equal(await page.getByText('Required: fill it in.').count(), 1)
  assert.equal(await summary.innerText(), '1 thing to correct: Seconds')
  await summary.getByRole('button', { name: 'Seconds' }).click()
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'input/seconds')
  await lookedAt(page, 'tool-refused-here')

  // The server is the judge: here it says no to what the browser lets pass.
  await page.route('**/api/v1/calls', async (route) => {
    const body = route.request().postDataJSON()
    await route.continue({ postData: JSON.stringify({ ...body, input: { seconds: 'soon' } }) })
  }, { times: 1 })
  await page.getByLabel(/Seconds/).first().fill('1')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await result(page).getByText('failed').waitFor()
  await page.getByRole('form').getByText(/Must be a number/).first().waitFor()
  assert.equal(await page.getByText(/Must be a number/i).count(), 1)
  await result(page).getByText('The input was refused: see the form.').waitFor()
  await result(page).getByText('VALIDATION_ERROR').waitFor()
  await lookedAt(page, 'tool-refused-there')
  // As JSON there is no field, and the line says it.
  await page.getByRole('radio', { name: 'JSON' }).click()
  await summary.getByText(/Must be a number/).waitFor()
  await page.getByRole('radio', { name: 'Form' }).click()
  await summary.getByText(/Must be a number/).waitFor({ state: 'detached' })

  // A lost answer and the same press again are one call.
  const ids = []
  await page.route('**/api/v1/calls', async (route) => {
    ids.push(route.request().postDataJSON().request_id)
    if (ids.length === 1) await route.abort()
    else await route.continue()
  })
  await page.getByLabel(/Seconds/).first().fill('0.2')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.getByRole('button', { name: 'Try again' }).click()
  await result(page).getByText('completed').waitFor()
  assert.equal(ids.length, 2)
  assert.equal(ids[0], ids[1])
  assert.deepEqual(ours(complaints), [])
})

productTest('what the tool itself refuses stands at the field it names, and the keys send the form', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/calculator')
  const run = page.getByRole('button', { name: 'Run', exact: true })
  assert.match(await run.getAttribute('title'), /Enter/)
  const expression = page.getByLabel(/Expression/).first()
  await expression.fill('2 +')
  await page.keyboard.press('Control+Enter')
  await result(page).getByText('failed').waitFor()
  await page.getByRole('group', { name: '1 thing to correct' }).waitFor()
  assert.equal(await expression.getAttribute('aria-invalid'), 'true')
  const told = await page.locator('[id="input/expression-wrong"]').innerText()
  assert.doesNotMatch(told, /`?expression`?:/)
  assert.equal(await page.getByText(told, { exact: true }).count(), 1)
  await lookedAt(page, 'tool-refused-by-tool')
  await expression.fill('2 + 2')
  await page.keyboard.press('Meta+Enter')
  await result(page).getByText('completed').waitFor()
  await page.locator('h1').click()
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keys' }).getByText('run the tool').waitFor()
  await assertAccessible(page)
  await picture(page, 'tool-keys')
  // Not from behind a dialog.
  const before = page.url()
  await page.keyboard.press('Control+Enter')
  await page.waitForTimeout(300)
  assert.equal(page.url(), before)
  await page.keyboard.press('Escape')

  // From within an editor to which the keys mean something else.
  await page.getByRole('form').getByRole('radio', { name: 'JSON' }).click()
  await page.getByRole('form').locator('.cm-content').click()
  await page.keyboard.press('Control+Enter')
  await page.waitForURL((url) => url.href !== before)
  await result(page).getByText('completed').waitFor()
  assert.deepEqual(ours(complaints), [])
})

productTest('a result below the fold is brought into sight', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server, { width: 390, height: 500 }, { reducedMotion: 'reduce' })
  await open(page, server, '/tools/wait')
  await page.getByLabel(/Seconds/).first().fill('0.2')
  await page.keyboard.press('Control+Enter')
  await result(page).getByText('completed').waitFor()
  await page.waitForFunction(() => {
    const head = document.querySelector('section[aria-label="Result"] h2')?.getBoundingClientRect()
    return head !== undefined && head.top >= 0 && head.bottom <= window.innerHeight
  })
  await picture(page, 'tool-ran-phone-small')
  assert.deepEqual(ours(complaints), [])
})

productTest('a tool without a runner says so, and is not run', async ({ server, browser }) => {
  await register(asOwner(server), unrunnable)
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/writePoem')
  await page.getByText('no runner here').waitFor()
  await page.getByText('cannot run on this server').first().waitFor()
  const run = page.getByRole('button', { name: 'Run', exact: true })
  assert.equal(await run.getAttribute('aria-disabled'), 'true')
  assert.equal(await run.getAttribute('title'), 'This server has no runner for it.')
  assert.equal(await page.getByText('cannot run on this server').count(), 1)
  await page.locator('h1').click()
  await page.keyboard.press('Control+Enter')
  await page.waitForTimeout(300)
  assert.equal(await result(page).count(), 0)
  await lookedAt(page, 'tool-no-runner')
  assert.deepEqual(ours(complaints), [])
})

productTest('a call that needs a person is confirmed by who pressed Run, with what they looked at', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/write_file')
  await page.getByText('A person is asked first').waitFor()
  await picture(page, 'tool-asks')
  await page.getByRole('textbox', { name: /Path/ }).fill('a.txt')
  await page.getByRole('textbox', { name: /Text/ }).fill('one\u200btwo')

  await page.getByRole('button', { name: 'Dry run' }).click()
  await result(page).getByText('completed').waitFor()
  assert.match(await result(page).innerText(), /Dry run[\s\S]*would[ _]run/i)

  await page.getByRole('button', { name: 'Run, then confirm' }).click()
  const confirm = result(page).getByRole('button', { name: 'Confirm and run' })
  await confirm.waitFor()
  assert.match(await result(page).innerText(), /U\+200B/)
  await lookedAt(page, 'tool-waits')
  const sent = page.waitForRequest((request) => request.url().includes('/decide'))
  await confirm.click()
  const decision = (await sent).postDataJSON()
  assert.equal(decision.decision, 'approve')
  assert.match(decision.input_digest, /^[0-9a-f]{64}$/)
  await result(page).getByText('completed').waitFor()
  assert.deepEqual(ours(complaints), [])
})

productTest('a call that somebody else decides goes on by itself', async ({ server, browser }) => {
  const api = asOwner(server)
  const settings = await api('GET', '/api/v1/settings')
  await api('PUT', '/api/v1/settings', { ...settings, separation: true })
  await api('POST', '/api/v1/users', { name: 'ada', roles: ['member'] })
  const { page, complaints } = await signedInAs(browser, server, 'ada')
  await open(page, server, '/tools/write_file')
  await page.getByRole('textbox', { name: /Path/ }).fill('b.txt')
  await page.getByRole('textbox', { name: /Text/ }).fill('hello')
  await page.getByRole('button', { name: 'Ask to run' }).click()
  await result(page).getByText('pending').waitFor()
  await result(page).getByText('whoever asks does not decide').first().waitFor()
  const link = result(page).getByRole('link', { name: 'See the approval' })
  const approval = (await link.getAttribute('href')).split('/').pop()
  await picture(page, 'tool-waits-for-other')
  await assertAccessible(page)
  const card = await api('GET', `/api/v1/approvals/${approval}`)
  await api('POST', `/api/v1/approvals/${approval}/decide`, { decision: 'approve', input_digest: card.input_digest })
  await result(page).getByText('completed').waitFor()

  // Who may only look is told why they cannot do more.
  await api('POST', '/api/v1/users', { name: 'eve', roles: ['viewer'] })
  const viewer = await signedInAs(browser, server, 'eve')
  await open(viewer.page, server, '/tools/echo')
  await viewer.page.getByRole('button', { name: 'Run', exact: true }).waitFor()
  await viewer.page.getByText('Calling needs the permission calls.create').first().waitFor()
  await viewer.page.getByRole('button', { name: 'Manage' }).click()
  await viewer.page.getByText('needs the role admin').waitFor()
  await picture(viewer.page, 'tool-viewer')
  assert.deepEqual(ours(complaints), [])
  assert.deepEqual(ours(viewer.complaints), [])
})

productTest('keys: which is missing, where to set it, whose is used', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/signText')
  await page.getByText('toolgate secret set SIGNING_KEY --tool signText').waitFor()
  await page.getByText('missing key', { exact: true }).waitFor()
  await lookedAt(page, 'tool-key-missing')
  await page.getByRole('textbox', { name: /Text/ }).fill('hello')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await result(page).getByText('AUTH_REQUIRED').waitFor()

  await api('PUT', '/api/v1/secrets/org/SIGNING_KEY', { value: 'a key for the example', tools: ['signText'] })
  await open(page, server, '/tools/signText')
  await page.getByText('the whole organisation’s').first().waitFor()
  await page.getByText('using organisation key').waitFor()
  await page.getByRole('tab', { name: 'Details' }).click()
  await page.getByText('the whole organisation’s would be used').waitFor()
  await lookedAt(page, 'tool-details')
  assert.deepEqual(ours(complaints), [])
})

productTest('docs, examples, renderings and versions', async ({ server, browser }) => {
  const api = asOwner(server)
  const first = definition('shapes.make', {
    title: 'Make a shape',
    input_schema: {
      type: 'object',
      additionalProperties: false,
      required: ['kind'],
      properties: {
        kind: { type: 'string', description: 'Which shape.', enum: ['circle', 'square'] },
        size: { type: 'number', description: 'How large.', minimum: 1, not: { const: 13 } },
      },
    },
    examples: [{ title: 'A circle', input: { kind: 'circle', size: 2 } }],
    docs: '# Shapes\n\nMakes **shapes**,\nas many as\nare wanted.\n\nSee [the list](https://example.org/shapes) or [not](javascript:alert(1)).\n\n- one\n- two\n',
  })
  await register(api, first)
  const { kind, size } = first.input_schema.properties
  const next = { ...first, description: `${first.description} It knows triangles.` }
  next.input_schema = { ...first.input_schema, properties: { kind: { ...kind, enum: ['circle', 'square', 'triangle'] }, size: { ...size, maximum: 9 } } }
  await register(api, next)

  const { page, complaints } = await signedIn(browser, server)
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await open(page, server, '/tools/shapes.make?tab=docs')
  await page.getByRole('link', { name: 'the list' }).waitFor()
  assert.equal(await page.locator('a[href^="javascript"]').count(), 0)
  assert.match(await page.getByRole('table', { name: 'Input' }).innerText(), /kind\s*required[\s\S]*one of circle, square, triangle/)
  // Line ends of the source are spaces.
  const prose = page.getByText('Makes shapes, as many as are wanted.')
  assert((await prose.boundingBox()).height < 30)
  await lookedAt(page, 'tool-docs')
  await page.getByRole('button', { name: 'Copy command line' }).click()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'toolgate call shapes.make kind=circle size=2')
  await page.getByRole('link', { name: /Use in the form/ }).click()
  await page.getByLabel(/Size/).first().waitFor()
  assert.equal(await page.getByLabel(/Size/).first().inputValue(), '2')

  await page.getByRole('tab', { name: 'Renderings' }).click()
  await page.getByRole('group', { name: 'OpenAI Chat Completions form' }).filter({ hasText: '"shapes__make"' }).waitFor()
  await lookedAt(page, 'tool-renderings')
  await page.getByRole('button', { name: 'Copy the OpenAI Chat Completions form' }).click()
  const chat = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))
  await page.getByRole('button', { name: 'OpenAI Responses', exact: true }).click()
  await page.getByText('/v1/responses').waitFor()
  await page.getByRole('button', { name: 'Copy the OpenAI Responses form' }).click()
  const responses = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))
  assert.deepEqual(responses, { type: 'function', ...chat.function, strict: false })
  for (const [label, text] of [['Anthropic', '"input_schema"'], ['Gemini', '"parametersJsonSchema"'], ['MCP', '"inputSchema"'], ['Prompt (XML)', '<tool>']]) {
    await page.getByRole('button', { name: label, exact: true }).click()
    await page.getByRole('group', { name: `${label} form` }).filter({ hasText: text }).waitFor()
  }
  await page.getByRole('button', { name: 'Gemini', exact: true }).click()
  await page.getByText(/`?not`?/).first().waitFor()
  await picture(page, 'tool-renderings-gemini')
  await page.getByRole('button', { name: 'Copy the Gemini form' }).click()
  JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))

  await page.getByRole('tab', { name: /Versions/ }).click()
  const changed = page.getByRole('region', { name: 'What changed' })
  await changed.getByText('narrower').first().waitFor()
  await changed.getByText('wider').first().waitFor()
  await changed.locator('.cm-mergeView').waitFor()
  await lookedAt(page, 'tool-versions')
  await page.getByRole('button', { name: /Show version 1.0.0/ }).click()
  await page.waitForURL(/version=1.0.0/)
  await page.getByText('shapes.make@1.0.0').waitFor()
  assert.deepEqual(ours(complaints), [])
})

productTest('an administrator switches a tool off and on, deprecates and blocks it', async ({ server, browser }) => {
  await register(asOwner(server), definition('myTool'))
  const { page, complaints } = await signedIn(browser, server)
  await open(page, server, '/tools/myTool')
  const manage = async (item) => {
    await page.getByRole('button', { name: 'Manage' }).click()
    await page.getByRole('menuitem', { name: item }).click()
  }
  await manage('Switch off here')
  await page.getByText('It is switched off in this tenant: nobody').waitFor()
  await manage('Switch on here')
  await page.getByText('It is switched off in this tenant: nobody').waitFor({ state: 'detached' })
  await manage('Deprecate')
  await page.getByLabel('Why').fill('The other one is better')
  await page.getByLabel('Replaced by').fill('wait')
  await assertAccessible(page)
  await picture(page, 'tool-deprecate')
  await page.getByRole('button', { name: 'Deprecate', exact: true }).click()
  await page.getByText('The other one is better').first().waitFor()
  await page.getByRole('link', { name: 'wait' }).waitFor()
  await lookedAt(page, 'tool-deprecated')
  await manage('Block')
  await page.getByRole('button', { name: 'Block', exact: true }).click()
  await page.getByText('This version is blocked').first().waitFor()
  await page.getByRole('button', { name: 'Manage' }).click()
  await picture(page, 'tool-blocked')
  assert.deepEqual(ours(complaints), [])
})

const HOSTILE = '<img src=x onerror="window.stolen=1"><script>window.stolen=1</script>'

productTest('what others wrote is text: names, titles, descriptions, icons, docs, output, errors', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  const hostile = {
    title: `T ${HOSTILE}`,
    description: `D ${HOSTILE} \u202egnp.exe`,
    docs: `${HOSTILE}\n\n[x](javascript:window.stolen=1) ![y](javascript:window.stolen=1) <svg onload=window.stolen=1>`,
    icon: 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" onload="window.stolen=1"/>',
    category: HOSTILE,
  }
  await page.route(/\/api\/v1\/tools\?/, async (route) => {
    const answer = await (await route.fetch()).json()
    await route.fulfill({ json: { ...answer, items: answer.items.map((tool) => (tool.name === 'echo' ? { ...tool, ...hostile } : tool)) } })
  })
  await page.route(/\/api\/v1\/tools\/echo(\?|$)/, async (route) => {
    const answer = await (await route.fetch()).json()
    const input_schema = { type: 'object', properties: { text: { type: 'string', title: HOSTILE, description: HOSTILE } } }
    await route.fulfill({ json: typeof answer === 'string' ? HOSTILE : { ...answer, ...hostile, input_schema, message: HOSTILE, examples: [{ title: HOSTILE, input: { text: HOSTILE } }] } })
  })
  await page.route(/\/api\/v1\/calls\/[^/]+$/, async (route) => {
    const answer = await (await route.fetch()).json()
    const error = { code: 'UNKNOWN', message: HOSTILE, details: { reason: HOSTILE } }
    const attachments = [{ kind: 'blob', url: 'javascript:window.stolen=1' }, { kind: 'blob', url: 'https://evil.example/x' }]
    await route.fulfill({ json: { ...answer, error, output: { text: HOSTILE, [HOSTILE]: [HOSTILE] }, warnings: [HOSTILE], attachments } })
  })
  await open(page, server, '/tools')
  await page.getByText(`T ${HOSTILE}`).first().waitFor()
  assert.match(await row(page, 'echo').innerText(), /U\+202E/)
  await picture(page, 'tools-hostile')
  await open(page, server, '/tools/echo')
  await page.getByRole('textbox').first().fill(HOSTILE)
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await result(page).getByText(HOSTILE).first().waitFor()
  await picture(page, 'tool-hostile')
  for (const tab of ['Docs', 'Renderings', 'Versions', 'Details', 'History']) {
    await page.getByRole('tab', { name: tab }).click()
    await page.getByRole('tabpanel', { name: tab }).waitFor()
    await page.waitForTimeout(150)
    assert.equal(await page.locator('main img, main script, main svg[onload], main a[href^="javascript"], main a[href*="evil"]').count(), 0, tab)
  }
  assert.equal(await page.evaluate(() => window.stolen), undefined)
  assert.deepEqual(ours(complaints), [])
})

productTest('thousands of tools scroll, with few elements', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  const many = Array.from({ length: 5000 }, (_, index) => ({
    id: `id${index}`, name: `tool_${index}`, version: '1.0.0', title: `Tool ${index}`, description: 'One of many.', icon: null,
    category: 'system', type: 'utility', group: null, tags: [], egress_class: 'none', risk: 'safe', requires_approval: false,
    visibility: 'external', origin: 'code', state: 'active', enabled: true, stopped: null, secrets: [],
  }))
  await page.route(/\/api\/v1\/tools\?/, (route) => {
    const query = new URL(route.request().url()).searchParams
    const from = Number(query.get('cursor') ?? 0)
    const to = from + Number(query.get('limit'))
    return route.fulfill({ json: { items: many.slice(from, to), next_cursor: to < many.length ? String(to) : null } })
  })
  await open(page, server, '/tools')
  await row(page, 'tool_0').waitFor()
  for (let tries = 0; tries < 60 && (await row(page, 'tool_4999').count()) === 0; tries += 1) {
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight))
    await page.waitForTimeout(50)
  }
  await row(page, 'tool_4999').waitFor()
  assert((await page.getByRole('row').count()) < 100)
  assert.deepEqual(ours(complaints), [])
})

productTest('an unknown tool, and an empty library', async ({ server, browser }) => {
  const { page } = await signedIn(browser, server)
  await open(page, server, '/tools/calculater')
  await page.getByRole('link', { name: 'calculator' }).waitFor()
  await lookedAt(page, 'tool-unknown')
  await page.route(/\/api\/v1\/tools\?/, (route) => route.fulfill({ json: { items: [], next_cursor: null } }))
  await open(page, server, '/tools')
  await page.getByText('toolgate tool register').waitFor()
  await lookedAt(page, 'tools-empty')
  await page.unroute(/\/api\/v1\/tools\?/)
  await page.route(/\/api\/v1\/tools\?/, (route) => route.abort())
  await open(page, server, '/tools?risk=safe')
  await page.getByRole('button', { name: 'Try again' }).waitFor({ timeout: 30_000 })
  await picture(page, 'tools-unreachable')
})
