// Ways in and out: the one-time link, a password, an invitation, a new password, every session at once.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, openPage, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn } from './console.mjs'
import { productTest } from './product.mjs'

const PASSWORD = 'a long enough one'
const ours = (complaints) => complaints.filter((text) => !text.startsWith('error: Failed to load resource'))

async function looksRight(page, name) {
  for (const [size, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
    await assertFits(page, viewport)
    await picture(page, `${name}-${size}`)
  }
  await page.setViewportSize(DESKTOP)
  await assertAccessible(page)
}

productTest('the one-time link signs in once, and its secret leaves the address', async ({ server, browser }) => {
  // Whatever opens the link before its owner does spends nothing.
  for (let opened = 0; opened < 2; opened += 1) {
    const early = await openPage(browser, PHONE)
    await early.page.goto(server.sign_in_url)
    await early.page.getByRole('heading', { name: 'Sign in as admin?' }).waitFor()
    assert.equal(new URL(early.page.url()).hash, '', 'the token stays in the address')
    await looksRight(early.page, 'link-asks')
    assert.deepEqual(await early.page.context().cookies(), [])
    assert.deepEqual(early.complaints, [])
  }
  const { page, complaints } = await signedIn(browser, server)
  assert.equal(new URL(page.url()).pathname, '/')
  assert.equal(new URL(page.url()).hash, '', 'the token stays in the address')
  const response = await page.reload()
  assert.match(response.headers()['content-security-policy'] ?? '', /default-src 'none'/)
  await page.getByTestId('who').waitFor()
  assert.deepEqual(complaints, [])

  const second = await openPage(browser, PHONE)
  await second.page.goto(server.sign_in_url)
  await second.page.getByRole('alert').waitFor()
  await looksRight(second.page, 'link-used-twice')
  await second.page.goto(`${server.url}/tools`)
  await second.page.getByRole('heading', { name: 'Sign in' }).waitFor()
  assert.deepEqual(ours(second.complaints), [])
})

productTest('a link asks before it takes the place of somebody else', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await api('POST', '/api/v1/users', { name: 'mallory', roles: ['member'] })
  const link = async () => (await api('POST', '/api/v1/users/mallory/sign-in-link', {})).url
  const lead = async () => {
    await page.goto('about:blank')
    await page.goto(await link())
    await page.getByText('You are signed in as admin in default').waitFor()
  }
  await lead()
  await looksRight(page, 'link-of-another')
  await page.getByRole('button', { name: 'Stay signed in as admin' }).click()
  await page.getByTestId('who').filter({ hasText: 'admin' }).waitFor()

  const tab = await page.context().newPage()
  await tab.goto(`${server.url}/tools`)
  await tab.getByTestId('who').filter({ hasText: 'admin' }).waitFor()
  await lead()
  await page.keyboard.press('Tab')
  await page.getByRole('button', { name: 'Sign in as mallory' }).press('Enter')
  await page.getByTestId('who').filter({ hasText: 'mallory' }).waitFor()
  const left = await api('GET', '/api/v1/users/admin/sessions')
  assert.deepEqual(left.items, [], 'the session before is still alive')
  // The tab of the session before says so, and does nothing as somebody else.
  await tab.getByRole('heading', { name: 'You went on in another tab' }).waitFor()
  await looksRight(tab, 'another-tab')
  await tab.getByRole('button', { name: 'Reload' }).click()
  await tab.getByTestId('who').filter({ hasText: 'mallory' }).waitFor()
  assert.deepEqual(ours(complaints), [])
})

productTest('who is not signed in is brought back to where they wanted to go', async ({ server, browser }) => {
  const api = asOwner(server)
  const { url } = await api('POST', '/api/v1/invitations', { name: 'ada', roles: ['approver'], show: true })
  const { page, complaints } = await openPage(browser)
  await page.goto(url)
  await page.getByLabel('New password').fill(PASSWORD)
  await looksRight(page, 'invitation')
  await page.getByRole('button', { name: 'Join' }).click()
  await page.getByTestId('who').filter({ hasText: 'ada' }).waitFor()

  await page.goto(`${server.url}/account`)
  await page.getByRole('button', { name: 'Sign out', exact: true }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.goto(`${server.url}/calls?status=failed`)
  await page.getByLabel('Name or e-mail').fill('ada')
  await page.getByLabel('Password').fill('not the password')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').filter({ hasText: 'not right' }).waitFor()
  await looksRight(page, 'sign-in-refused')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Calls' }).waitFor()
  assert.match(page.url(), /\/calls\?status=failed$/)
  assert.deepEqual(ours(complaints), [])
})

productTest('who is in several tenants says where to go', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('POST', '/api/v1/tenants', { slug: 'west', name: 'West' })
  const both = { name: 'cleo', email: 'cleo@example.com', roles: ['member'], show: true }
  for (const tenant of [undefined, 'west']) {
    const { url } = await api('POST', '/api/v1/invitations', both, tenant)
    const { page } = await openPage(browser)
    await page.goto(url)
    await page.getByLabel('New password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Join' }).click()
    await page.getByTestId('who').waitFor()
  }
  const { page, complaints } = await openPage(browser)
  await page.goto(`${server.url}/sign-in`)
  await page.getByLabel('Name or e-mail').fill('cleo@example.com')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('This opens several tenants.').waitFor()
  await looksRight(page, 'sign-in-tenants')
  await page.getByRole('button', { name: 'west' }).click()
  await page.getByTestId('who').filter({ hasText: 'west' }).waitFor()

  // By name, the tenant is given beforehand.
  await page.goto(`${server.url}/account`)
  await page.getByRole('button', { name: 'Sign out', exact: true }).click()
  await page.getByLabel('Name or e-mail').fill('cleo')
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'In another tenant?' }).click()
  await page.getByLabel('Tenant').fill('west')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByTestId('who').filter({ hasText: 'west' }).waitFor()
  assert.deepEqual(ours(complaints), [])
})

productTest('a new password ends the sessions before it', async ({ server, browser }) => {
  const api = asOwner(server)
  const { url } = await api('POST', '/api/v1/invitations', { name: 'bob', roles: ['member'], show: true })
  const { page } = await openPage(browser)
  await page.goto(url)
  await page.getByLabel('New password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Join' }).click()
  await page.getByTestId('who').waitFor()

  const reset = await api('POST', '/api/v1/users/bob/reset', { show: true })
  const other = await openPage(browser)
  await other.page.goto(reset.url)
  await other.page.getByLabel('New password').fill('short')
  await other.page.getByRole('button', { name: 'Set the password' }).click()
  await other.page.getByText('10').first().waitFor()
  await looksRight(other.page, 'reset')
  await other.page.getByLabel('New password').fill(`${PASSWORD} again`)
  await other.page.getByRole('button', { name: 'Set the password' }).click()
  await other.page.getByRole('heading', { name: 'Sign in' }).waitFor()

  await page.goto(`${server.url}/tools`)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
})

productTest('an account shows its sessions, ends them all and sets a password', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await page.getByTestId('who').click()
  await page.getByText('This browser').waitFor()
  await page.getByLabel('New password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Set a password' }).click()
  await page.getByLabel('Present password').waitFor()
  await looksRight(page, 'account')
  await page.getByRole('button', { name: 'Sign out everywhere' }).click()
  const dialog = page.getByRole('dialog', { name: 'Sign out everywhere?' })
  await dialog.getByText('You have 1 session: this browser.').waitFor()
  await assertAccessible(page)
  await picture(page, 'account-everywhere')
  await dialog.getByRole('button', { name: 'Stay signed in' }).click()
  await page.getByText('This browser').waitFor()
  await page.getByRole('button', { name: 'Sign out everywhere' }).click()
  await dialog.getByRole('button', { name: 'Sign out everywhere' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.getByText('Signed out: 1 session ended.').waitFor()
  // Without a relay nothing is on its way: it says who can help.
  await page.getByRole('button', { name: 'Forgot the password?' }).click()
  await page.getByText('This server sends no mail.').waitFor()
  await looksRight(page, 'sign-in')
  assert.deepEqual(ours(complaints), [])
})
