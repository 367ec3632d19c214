// People: inviting, changing roles, taking back, and what an administrator does for a user.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

productTest('an administrator invites somebody, takes it back, and manages a user', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('POST', '/api/v1/users', { name: 'eve', roles: ['member'] })
  const { page, complaints } = await signedIn(browser, server)
  await page.getByRole('navigation').getByRole('link', { name: 'People' }).click()
  await page.getByRole('button', { name: 'Invite' }).click()
  await page.getByLabel('Name').fill('grace')
  await page.getByText('approver').click()
  await assertAccessible(page)
  await picture(page, 'invite')
  await page.getByRole('dialog').getByRole('button', { name: 'Invite' }).click()
  const link = page.getByRole('dialog').getByRole('button', { name: /Copy the link/ })
  assert.match(await link.innerText(), /\/invite#\S{40,}/)
  await picture(page, 'invited')
  await page.getByRole('button', { name: 'Done' }).click()

  await page.getByRole('tab', { name: 'Invitations' }).click()
  await page.getByRole('row').filter({ hasText: 'grace' }).getByText('open').waitFor()
  await assertAccessible(page)
  await picture(page, 'invitations')
  await page.getByRole('button', { name: 'Take back' }).click()
  await page.getByRole('row').filter({ hasText: 'grace' }).getByText('revoked').waitFor()

  await page.getByRole('tab', { name: 'Users' }).click()
  await page.getByRole('button', { name: 'Manage eve' }).click()
  await page.getByRole('dialog').getByText('approver').click()
  await page.getByRole('button', { name: 'Save the roles' }).click()
  await page.getByText('eve is changed.').waitFor()
  await page.getByRole('button', { name: 'Make a sign-in link' }).click()
  await page.getByRole('button', { name: /Copy the link/ }).waitFor()
  await assertAccessible(page)
  await picture(page, 'user')
  await page.getByRole('button', { name: 'Done' }).click()
  assert.deepEqual((await api('GET', '/api/v1/users/eve')).roles.sort(), ['approver', 'member'])
  await assertFits(page, PHONE)
  await picture(page, 'people-phone')
  await assertFits(page, DESKTOP)
  await picture(page, 'people')
  assert.deepEqual(complaints, [])
})

productTest('who may not manage people is told so', async ({ server, browser }) => {
  await asOwner(server)('POST', '/api/v1/users', { name: 'mel', roles: ['member'] })
  const { page } = await signedInAs(browser, server, 'mel')
  assert.equal(await page.getByRole('link', { name: 'People' }).count(), 0)
  await page.goto(`${server.url}/people`)
  await page.getByRole('heading', { name: 'You may not manage people' }).waitFor()
})
