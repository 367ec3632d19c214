// Skills: listed and shown with their text.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn } from './console.mjs'
import { productTest } from './product.mjs'

const REVIEW = fileURLToPath(new URL('../../examples/skills/review/SKILL.md', import.meta.url))

productTest('skills are listed, and each shows its text', async ({ server, browser }) => {
  const api = asOwner(server)
  for (const { name } of (await api('GET', '/api/v1/skills')).items) await api('DELETE', `/api/v1/skills/${name}`)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/skills`)
  await page.getByRole('heading', { name: 'No skills yet' }).waitFor()
  await assertAccessible(page)
  const source = await readFile(REVIEW, 'utf8')
  const { name } = await api('POST', '/api/v1/skills', { source })
  await page.reload()
  const row = page.getByRole('row').filter({ hasText: name })
  await row.waitFor()
  await assertAccessible(page)
  await picture(page, 'skills')
  await row.getByRole('link').click()
  await page.waitForURL(`**/skills/${name}`)
  await page.getByRole('region', { name: 'Text' }).getByText(source.split('\n').at(-2)).waitFor()
  await assertAccessible(page)
  await assertFits(page, DESKTOP)
  await picture(page, 'skill')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'skill-phone')
  assert.deepEqual(complaints, [])
  await page.goto(`${server.url}/skills/nothing`)
  await page.getByRole('heading', { name: 'There is no such skill' }).waitFor()
})
