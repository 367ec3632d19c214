// The one-time sign-in link, end to end: the real server, a real browser.
import assert from 'node:assert/strict'
import { assertFits, DESKTOP, openPage, PHONE, picture } from './browser.mjs'
import { productTest } from './product.mjs'

const who = (page) => page.getByTestId('who')
const signedOut = (page) => page.getByRole('heading', { name: 'Not signed in' })

const STRANGE = {
  name: `a.${'very_long_'.repeat(8)}name`,
  version: '1.0.0',
  title: `A title ${'that goes on and on '.repeat(6)}`,
  egress_class: 'write',
  requires_approval: true,
  description: 'Takes `a.b` and `c`, with <b>bold</b> and one ` alone.',
}

async function signIn(page, server) {
  await page.goto(server.sign_in_url)
  await who(page).waitFor()
  assert.equal(new URL(page.url()).pathname, '/')
  assert.equal(new URL(page.url()).hash, '', 'the token stays in the address')
}

productTest('the sign-in link says who is signed in, on a desktop and on a phone', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser)

  await signIn(page, server)

  assert.match(await who(page).innerText(), /\S+\s+\S+/, 'the name and the tenant')
  for (const [name, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
    await assertFits(page, viewport)
    await picture(page, `signed-in-${name}`)
  }
  const response = await page.reload()
  assert.match(response.headers()['content-security-policy'] ?? '', /default-src/)
  // A reload keeps the session.
  await who(page).waitFor()
  assert.deepEqual(complaints, [])
})

productTest('the sign-in link works once', async ({ server, browser }) => {
  await signIn((await openPage(browser)).page, server)

  const { page, complaints } = await openPage(browser, PHONE)
  const redeemed = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.goto(server.sign_in_url)
  const status = (await redeemed).status()

  assert(status >= 400 && status < 500, `the second use was answered ${status}`)
  const banner = page.getByRole('status')
  await banner.filter({ hasText: /\S/ }).waitFor()
  for (const sentence of (await banner.innerText()).split(/(?<=\.) /)) assert.match(sentence, /^\p{Lu}/u)
  await assertFits(page, PHONE)
  await picture(page, 'link-used-twice')
  await page.goto(server.url)
  await signedOut(page).waitFor()
  assert.equal(await who(page).count(), 0, 'somebody is signed in')
  // The browser itself reports a refused request; anything else is ours.
  const ours = complaints.filter((text) => !text.startsWith('error: Failed to load resource'))
  assert.deepEqual(ours, [])
})

productTest('signing out ends the session', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser)
  await signIn(page, server)

  await page.getByRole('button', { name: 'Sign out' }).click()
  await who(page).waitFor({ state: 'detached' })

  await assertFits(page, DESKTOP)
  await picture(page, 'signed-out')
  await page.goto(server.url)
  await signedOut(page).waitFor()
  assert.equal(await who(page).count(), 0, 'the session outlived the sign-out')
  assert.deepEqual(complaints, [])
})

productTest('what others wrote is shown as text, on lines that fit', async ({ server, browser }) => {
  const { page, complaints } = await openPage(browser, PHONE)
  await page.route('**/api/v1/tools?*', (route) => route.fulfill({ json: { items: [STRANGE], next_cursor: 'x' } }))

  await signIn(page, server)

  const [tool, more] = await page.getByRole('listitem').all()
  assert.match(await tool.innerText(), /<b>bold<\/b>/)
  assert.deepEqual(await tool.locator('p code').allInnerTexts(), ['a.b', 'c'])
  assert.equal(await tool.locator('b').count(), 0)
  assert.equal(await more.innerText(), 'and more: toolgate tool list')
  assert.match(await tool.getByText('changes things outside').getAttribute('class'), /warm/)
  for (const long of [tool.locator('.name'), tool.locator('.row code')]) {
    const { height } = await long.boundingBox()
    assert(height < 30, `${height} px is more than one line`)
  }
  await assertFits(page, PHONE)
  await picture(page, 'strange-tool')
  assert.deepEqual(complaints, [])
})
