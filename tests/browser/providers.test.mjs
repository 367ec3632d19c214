// Model providers: added, given a key, tried, priced, removed.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const SCRIPT = { version: 1, turns: [{ say: 'Ready, as written.', usage: { input_tokens: 12, output_tokens: 3 }, repeat: 99 }] }

productTest('a provider is added, given a key, tried and removed', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Connections' }).click()
  await page.getByRole('heading', { name: 'No model providers yet' }).waitFor()
  await page.getByText('toolgate provider add openai').waitFor()
  await assertAccessible(page)
  await picture(page, 'providers-empty')

  await page.getByRole('button', { name: 'Add a provider' }).click()
  const dialog = page.getByRole('dialog', { name: 'Add a provider' })
  await dialog.getByLabel('Name').fill('local')
  await dialog.getByRole('button', { name: /Kind/ }).click()
  await page.getByRole('option', { name: 'openai_chat' }).click()
  assert.equal(await dialog.getByText('Script', { exact: true }).count(), 0, 'a script is asked for of a scripted one alone')
  await dialog.getByLabel('Base URL').fill('http://127.0.0.1:9/v1')
  await dialog.getByLabel('Secret').fill('LOCAL_KEY')
  await assertAccessible(page)
  await picture(page, 'provider-new')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.waitForURL('**/providers/local')
  await page.getByText('not set where you can see it').waitFor()

  await page.getByRole('button', { name: 'Set its key' }).click()
  const key = page.getByRole('dialog', { name: 'Set LOCAL_KEY' })
  await key.getByText('127.0.0.1').waitFor()
  await key.getByLabel('Key').fill('sk-nobody-sees-this')
  await assertAccessible(page)
  await key.getByRole('button', { name: 'Set the key' }).click()
  await page.getByText('set for the organisation').waitFor()
  const [secret] = (await api('GET', '/api/v1/secrets')).items
  assert.deepEqual(secret.allowed, { hosts: ['127.0.0.1'], providers: ['local'] })

  // Nothing listens there, and nothing is let there: the page says what to do.
  await page.getByLabel('Model').fill('tiny')
  await page.getByRole('button', { name: 'Test', exact: true }).click()
  await page.getByText(/tiny did not answer/).waitFor()
  await page.getByText('POLICY_DENIED').waitFor()
  assert.doesNotMatch(await page.locator('main').innerText(), /nobody-sees-this/)
  await assertAccessible(page)
  await picture(page, 'provider-refused')

  await page.getByRole('button', { name: 'More for this provider' }).click()
  await page.getByRole('menuitem', { name: 'Remove…' }).click()
  await page.getByRole('dialog', { name: 'Remove local?' }).getByRole('button', { name: 'Remove' }).click()
  await page.waitForURL('**/providers')
  await page.getByRole('heading', { name: 'No model providers yet' }).waitFor()
  assert.deepEqual(complaints, [])
})

productTest('a scripted provider is called so, and one that agents ask is not removed unasked', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('PUT', '/api/v1/providers/play', { name: 'play', kind: 'scripted', script: SCRIPT, prices: { '*': { input: '1.00', output: '4.00' } } })
  await api('PUT', '/api/v1/providers/openai', { name: 'openai', kind: 'openai_chat', secret: 'OPENAI_API_KEY' })
  await api('POST', '/api/v1/agents', { name: 'shop', model: 'play/lamps' })
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/providers`)
  const row = page.getByRole('row').filter({ hasText: 'play' })
  await row.getByText('scripted', { exact: true }).last().waitFor()
  await page.getByRole('row').filter({ hasText: 'https://api.openai.com/v1' }).waitFor()
  await assertAccessible(page)
  await picture(page, 'providers-light')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'providers-phone')
  await page.setViewportSize(DESKTOP)
  await row.getByRole('link').click()

  await page.getByRole('link', { name: 'shop' }).waitFor()
  await page.getByRole('button', { name: 'Test', exact: true }).click()
  const tested = page.getByRole('region', { name: 'Test' }).getByRole('status')
  await tested.getByText('Ready, as written.').waitFor()
  await tested.getByText('scripted', { exact: true }).waitFor()
  await tested.getByText(/12 tokens in, 3 out, 0\.000024 USD/).waitFor()
  await assertAccessible(page)
  await picture(page, 'provider-light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'provider-dark')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'provider-phone')
  await page.setViewportSize(DESKTOP)

  await page.getByRole('button', { name: 'Edit' }).click()
  const edit = page.getByRole('dialog', { name: 'Edit play' })
  await edit.getByRole('button', { name: 'Save' }).click()
  await page.getByText('play is changed.').waitFor()
  assert.deepEqual((await api('GET', '/api/v1/providers/play')).script.turns.length, 1, 'what was there stays')

  await page.getByRole('button', { name: 'More for this provider' }).click()
  await page.getByRole('menuitem', { name: 'Remove…' }).click()
  const remove = page.getByRole('dialog', { name: 'Remove play?' })
  await remove.getByRole('button', { name: 'Remove' }).click()
  await remove.getByText(/asks models of/).waitFor()
  await remove.getByText(/Also though shop asks its models/).click()
  await remove.getByRole('button', { name: 'Remove' }).click()
  await page.waitForURL('**/providers')
  assert.deepEqual(complaints.filter((text) => !/409/.test(text)), [])

  const viewer = await api('POST', '/api/v1/users', { name: 'vera', roles: ['viewer'] })
  const seen = await signedInAs(browser, server, viewer.id)
  await seen.page.goto(`${server.url}/providers/openai`)
  await seen.page.getByText('https://api.openai.com/v1').waitFor()
  for (const name of ['Edit', 'Set its key', 'Test']) {
    assert.equal(await seen.page.getByRole('button', { name, exact: true }).getAttribute('aria-disabled'), 'true', name)
  }
  await seen.page.goto(`${server.url}/providers/nothing`)
  await seen.page.getByRole('heading', { name: 'There is no such provider' }).waitFor()
})
