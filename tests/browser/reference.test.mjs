// The reference of the API: what the server describes, as a page.
import assert from 'node:assert/strict'
import { assertFits, DESKTOP, openPage, PHONE, picture } from './browser.mjs'
import { productTest } from './product.mjs'

const operation = (page, id) => page.locator(`details#${id}`)

async function openReference(page, server, hash = '') {
  await page.goto(`${server.url}/docs/api${hash}`)
  await page.getByRole('heading', { name: 'API reference' }).waitFor()
  assert.equal(await page.locator('.trouble').count(), 0, await page.locator('#status').textContent())
}

productTest('every operation of the document is on the page, under its subject', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser)
  await openReference(page, server)

  const described = await (await fetch(`${server.url}/openapi.json`)).json()
  const ids = Object.values(described.paths).flatMap((item) => Object.values(item).map((one) => one.operationId))
  assert.deepEqual((await page.locator('details.operation').evaluateAll((all) => all.map(({ id }) => id))).sort(), ids.sort())
  assert.deepEqual(await page.locator('.group > h2').allInnerTexts(), described.tags.map(({ name }) => name[0].toUpperCase() + name.slice(1).replaceAll('-', ' ')))
  await picture(page, 'reference-desktop')
  assert.deepEqual(complaints, [])
})

productTest('an operation shows its parameters, body, answers and a call to copy', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser)
  await openReference(page, server, '#agents_create')

  const create = operation(page, 'agents_create')
  await create.getByRole('heading', { name: 'Example' }).waitFor()
  const body = create.locator('.detail > .fields').first()
  assert.match(await body.innerText(), /name[\s\S]*required/)
  assert.match(await create.locator('.answer').last().innerText(), /^refused/)
  const call = await create.locator('.example code').innerText()
  assert.match(call, new RegExp(`^curl -X POST '${server.url}/api/v1/agents'`))
  assert.match(call, /Authorization: Bearer \$TOOLGATE_KEY/)
  JSON.parse(/-d '([^']+)'$/.exec(call)[1])
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await create.getByRole('button', { name: 'Copy' }).click()
  await create.getByRole('button', { name: 'Copied' }).waitFor()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), call)
  await picture(page, 'reference-operation')

  await operation(page, 'system_healthz').locator('> summary').click()
  await operation(page, 'system_healthz').getByText('needs no key').waitFor()
  assert.equal(new URL(page.url()).hash, '#system_healthz')
  assert.deepEqual(complaints, [])
})

productTest('a search leaves what fits, from the keyboard', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser)
  await openReference(page, server)
  const shown = () => page.locator('details.operation:visible').evaluateAll((all) => all.map(({ id }) => id))

  await page.keyboard.press('/')
  await page.keyboard.type('POST sign-in-link')
  assert.deepEqual(await shown(), ['users_sign_in_link'])
  assert.equal(await page.getByRole('status').innerText(), '1 operation.')
  await page.getByRole('searchbox').fill('nothing fits this')
  assert.deepEqual(await shown(), [])
  await page.getByRole('searchbox').fill('')
  assert((await shown()).length > 40)
  assert.deepEqual(complaints, [])
})

productTest('it fits a phone with everything open, light and dark', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser, PHONE)
  await openReference(page, server)
  await page.evaluate(() => document.querySelectorAll('details.operation').forEach((one) => { one.open = true }))
  await page.locator('.example').last().waitFor()
  await page.evaluate(() => document.querySelectorAll('details.more').forEach((one) => { one.open = true }))

  for (const [name, viewport] of Object.entries({ phone: PHONE, desktop: DESKTOP })) await assertFits(page, viewport, name)
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertFits(page, PHONE)
  await page.evaluate(() => document.querySelectorAll('details.operation').forEach((one, index) => { one.open = index === 1 }))
  await picture(page, 'reference-phone-dark')
  assert.deepEqual(complaints, [])
})
