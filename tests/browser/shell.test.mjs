// The frame of the console: places, counts, search, theme, broken lines, and pages that are not there.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, call, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const unexpected = (complaints) =>
  complaints.filter((text) => !/Failed to load resource|ERR_INTERNET_DISCONNECTED|ERR_FAILED/.test(text))

productTest('everything is found and reached from the keyboard', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog', { name: 'Search and act' }).waitFor()
  await assertAccessible(page)
  await page.keyboard.type('calcul')
  await page.getByRole('menuitem', { name: /calculator/ }).waitFor()
  await picture(page, 'palette')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/tools\/calculator/)
  await page.keyboard.press('Control+k')
  await page.keyboard.type('theme: dark')
  await page.getByRole('menuitem', { name: /Theme: dark/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark')
  await page.reload()
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark', 'the theme is kept')
  await page.getByTestId('who').waitFor()
  await page.keyboard.press('Control+k')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.type('qqzzxxjjkk')
  await page.getByText(/Nothing is called/).waitFor()
  // The first clears what was typed, the second closes.
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
})

productTest('the first tab stop leads past the places, and every place has a name', async ({ server, browser }) => {
  const { page } = await signedIn(browser, server)
  await page.getByRole('heading', { name: 'Home' }).waitFor()
  await page.keyboard.press('Tab')
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to the page')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main')
  for (const viewport of [DESKTOP, PHONE]) {
    await assertFits(page, viewport)
    await assertAccessible(page)
  }
})

productTest('on a phone every place is reached from the bottom: the rest is behind More', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server, PHONE)
  const more = page.getByRole('button', { name: 'More' })
  for (const [place, heading] of [
    ['Runs', 'Runs'],
    ['Agents', 'Agents'],
    ['People', 'People'],
    ['Account', 'admin'],
  ]) {
    await more.click()
    const sheet = page.getByRole('dialog', { name: 'More' })
    await sheet.waitFor()
    if (place === 'Runs') {
      await assertAccessible(page)
      await assertFits(page, PHONE)
      await picture(page, 'more-phone')
      const { height } = await sheet.getByRole('link', { name: 'Runs' }).boundingBox()
      assert(height >= 44, `a target of ${height} px`)
    }
    await sheet.getByRole('link', { name: place }).click()
    await sheet.waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
    assert.equal(await more.getAttribute('aria-current'), 'page')
  }
  await more.click()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.setViewportSize(DESKTOP)
  assert.equal(await more.isVisible(), false)
  assert.deepEqual(complaints, [])
})

productTest('what waits is counted as it comes, also after the line broke', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('POST', '/api/v1/users', { name: 'ada', roles: ['approver'] })
  await api('POST', '/api/v1/agents', { name: 'helper', toolset: 'assigned' })
  await api('PUT', '/api/v1/agents/helper/tools/write_file', {})
  const { secret } = await api('POST', '/api/v1/keys', { name: 'helper-key', agent: 'helper' })
  const ask = (path) =>
    call(server, secret, 'POST', '/api/v1/calls', { tool: 'write_file', input: { path, text: 'x' }, wait: 0 })
  const { page, complaints } = await signedInAs(browser, server, 'ada')
  const waiting = (count) => page.getByRole('navigation').getByText(`${count} waiting`).waitFor()

  await ask('one.txt')
  await waiting(1)
  await page.route('**/api/v1/events', (route) => route.abort())
  await page.reload()
  await page.getByText('Reconnecting…').waitFor()
  await waiting(1)
  await assertAccessible(page)
  await ask('two.txt')
  await page.unroute('**/api/v1/events')
  await waiting(2)
  await page.getByText('Reconnecting…').waitFor({ state: 'detached' })
  await ask('three.txt')
  await waiting(3)
  assert.deepEqual(unexpected(complaints), [])
})

productTest('what fails is said in words, and can be tried again', async ({ server, browser }) => {
  const { page } = await signedIn(browser, server)
  await page.route('**/api/v1/agents?*', (route) => route.abort())
  await page.getByRole('navigation').getByRole('link', { name: 'Agents' }).click()
  await page.getByRole('alert').filter({ hasText: 'The server cannot be reached.' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'unreachable')
  await page.unroute('**/api/v1/agents?*')
  await page.getByRole('button', { name: 'Try again' }).click()
  await page.getByRole('heading', { name: 'No agents yet' }).waitFor()
  await page.goto(`${server.url}/no/such/page`)
  await page.getByRole('heading', { name: 'There is no such page' }).waitFor()
  assert.equal((await page.request.get(`${server.url}/assets/none.js`)).status(), 404)
  assert.equal((await page.request.get(`${server.url}/api/v1/none`)).status(), 404)
})

productTest('names of people and agents are text, whatever they hold', async ({ server, browser }) => {
  const api = asOwner(server)
  const nasty = '<img src=x onerror="window.pwned=1">'
  await api('POST', '/api/v1/users', { name: nasty, roles: ['member'] })
  await api('POST', '/api/v1/agents', { name: 'helper', title: nasty, description: nasty })
  const { page, complaints } = await signedIn(browser, server)
  for (const path of ['/people', '/agents', '/agents/helper', '/agents/helper?tab=profiles']) {
    await page.goto(server.url + path)
    await page.waitForLoadState('networkidle').catch(() => {})
    assert.equal(await page.evaluate(() => window.pwned), undefined, path)
    await assertFits(page, PHONE)
  }
  await page.goto(`${server.url}/people`)
  await page.getByText(nasty).first().waitFor()
  assert.deepEqual(complaints, [])
})
