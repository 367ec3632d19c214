// An agent's workspace: made, given tools and a key, bound by a profile, looked at, frozen.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, call, signedIn } from './console.mjs'
import { productTest } from './product.mjs'

const tab = (page, name) => page.getByRole('tab', { name: new RegExp(`^${name}`) })

productTest('an agent is made, given a tool and a key, and its workspace counts what it does', async ({ server, browser }) => {
  const { page, complaints } = await signedIn(browser, server)
  await page.getByRole('navigation').getByRole('link', { name: 'Agents' }).click()
  await page.getByRole('heading', { name: 'No agents yet' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'agents-empty')
  await page.getByRole('button', { name: 'New agent' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('Not A Slug')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('alert').first().waitFor()
  await page.getByRole('dialog').getByLabel('Name').fill('helper')
  await assertAccessible(page)
  await picture(page, 'agent-new')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('row').filter({ hasText: 'helper' }).waitFor()
  await picture(page, 'agents')
  await page.getByRole('row').filter({ hasText: 'helper' }).getByRole('link').click()

  await page.getByRole('heading', { name: 'helper' }).waitFor()
  await page.getByRole('button', { name: 'Assign echo' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Assign' }).click()
  await page.getByText('helper has echo.').waitFor()
  await page.getByRole('button', { name: 'Assign echo' }).waitFor({ state: 'detached' })
  await assertAccessible(page)
  await picture(page, 'agent-registry')
  await tab(page, 'Assignments').click()
  await page.getByRole('row').filter({ hasText: 'echo' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'agent-assignments')

  await tab(page, 'Profiles').click()
  await page.getByRole('button', { name: 'New profile' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill('careful')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('region', { name: 'careful' }).getByText('demands nothing').waitFor()
  await assertAccessible(page)
  await picture(page, 'agent-profiles')

  await page.getByRole('button', { name: 'Give it a key' }).click()
  await page.getByRole('button', { name: 'Make the key' }).click()
  const key = await page.getByRole('button', { name: /Copy the key/ }).innerText()
  await assertAccessible(page)
  await page.getByRole('button', { name: 'Done' }).click()
  await call(server, key, 'POST', '/api/v1/calls', { tool: 'echo', input: { text: 'hello' } })
  await tab(page, 'Invocations').click()
  await page.getByRole('row').filter({ hasText: 'echo' }).getByText('completed').waitFor()
  await tab(page, 'Invocations').filter({ hasText: '1' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'agent-invocations')

  await tab(page, 'Approvals').click()
  await page.getByRole('heading', { name: 'It has asked nobody yet' }).waitFor()
  await page.getByRole('button', { name: 'Freeze' }).click()
  await page.getByRole('button', { name: 'Let it go on' }).waitFor()
  assert.equal((await asOwner(server)('GET', '/api/v1/agents/helper')).state, 'frozen')
  await assertFits(page, PHONE)
  await picture(page, 'agent-phone')
  await assertFits(page, DESKTOP)
  await page.goto(`${server.url}/agents/helper/tools`)
  await page.getByRole('heading', { name: 'helper' }).waitFor()
  assert.deepEqual(
    complaints.filter((text) => !text.startsWith('error: Failed to load resource')),
    [],
  )
})
