// The gallery of fields and outputs: filled in by hand and by keyboard, in both themes and on a phone.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { signedIn } from './console.mjs'
import { productTest } from './product.mjs'

async function gallery(browser, server, viewport, options) {
  const opened = await signedIn(browser, server, viewport, options)
  await opened.page.goto(`${server.url}/admin/fields`)
  await opened.page.getByRole('heading', { name: 'Text, numbers, choices' }).waitFor()
  return opened
}

// The value beside a form, as it is shown.
const valueOf = (page, form) => page.getByTestId(`form-${form}`).locator('[class*=value] [class*=json]')
// Each panel by itself: the whole page is too long to look at.
async function pictures(page, name) {
  if (!process.env.SCREENSHOTS) return
  for (const panel of await page.getByTestId(/^(form|output)-/).all()) {
    await panel.screenshot({ path: join(process.env.SCREENSHOTS, `${name}-${await panel.getAttribute('data-testid')}.png`) })
  }
}
const shows = (page, form, text) => valueOf(page, form).filter({ hasText: text }).waitFor()

for (const [name, viewport, options] of [
  ['light', DESKTOP, { colorScheme: 'light' }],
  ['dark', DESKTOP, { colorScheme: 'dark' }],
  ['phone', PHONE, { colorScheme: 'light' }],
]) {
  productTest(`every field and output is shown: ${name}`, async ({ server, browser }) => {
    const { page, complaints } = await gallery(browser, server, viewport, options)
    await page.getByRole('group', { name: /Due/ }).first().waitFor()
    await page.getByRole('img', { name: /Calls a day/ }).waitFor()
    await picture(page, `fields-${name}`)
    await pictures(page, `fields-${name}`)
    await assertAccessible(page)
    await assertFits(page, viewport)
    for (const button of await page.getByRole('button', { name: /more field/ }).all()) await button.click()
    for (const button of await page.getByRole('button', { name: 'Check' }).all()) await button.click()
    await page.getByText('to correct').first().waitFor()
    await picture(page, `fields-${name}-checked`)
    await pictures(page, `fields-${name}-checked`)
    await assertAccessible(page)
    await assertFits(page, viewport)
    assert.deepEqual(complaints, [])
  })
}

productTest('what is typed lands in the value', async ({ server, browser }) => {
  const { page, complaints } = await gallery(browser, server, DESKTOP)
  const scalars = page.getByTestId('form-scalars')
  await scalars.getByLabel('Subject').fill('Hi')
  await scalars.getByLabel('Body').focus()
  await scalars.getByText('Must be at least 3 characters long.').waitFor()
  await scalars.getByLabel('Subject').fill('Hello')
  await scalars.getByText('Must be at least 3 characters long.').waitFor({ state: 'detached' })
  await shows(page, 'scalars', 'subject: "Hello"')
  await scalars.getByRole('radio', { name: 'letter' }).check({ force: true })
  await shows(page, 'scalars', 'channel: "letter"')
  await scalars.getByLabel('Copies').press('ArrowUp')
  await shows(page, 'scalars', 'copies: 3')
  await scalars.getByLabel('Copies').fill('many')
  await scalars.getByRole('button', { name: 'Check' }).click()
  await scalars.getByText('2 things to correct').waitFor()
  await scalars.getByRole('button', { name: 'Copies' }).click()
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'scalars/copies')
  await page.keyboard.press('Control+A')
  await page.keyboard.type('4')
  await scalars.getByText('1 thing to correct').waitFor()
  await scalars.getByRole('button', { name: /more field/ }).click()
  await scalars.getByRole('combobox', { name: /Country/ }).focus()
  await page.keyboard.type('Por', { delay: 30 })
  await page.getByRole('option', { name: 'Portugal' }).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await shows(page, 'scalars', 'country: "Portugal"')
  await scalars.getByRole('button', { name: /Currency/ }).click()
  await page.getByRole('option', { name: 'CHF' }).click()
  await shows(page, 'scalars', 'currency: "CHF"')
  await scalars.getByRole('checkbox', { name: 'Wed' }).check()
  await shows(page, 'scalars', '"Wed"')

  const dates = page.getByTestId('form-dates')
  await dates.getByRole('button', { name: 'Calendar for Due' }).click()
  await page.getByRole('dialog').waitFor()
  await picture(page, 'fields-calendar')
  await assertAccessible(page)
  await page.getByRole('button', { name: /March 12, 2026/ }).click()
  await shows(page, 'dates', 'due: "2026-03-12"')
  const pixel = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
  const [picker] = await Promise.all([
    page.waitForEvent('filechooser'),
    dates.getByRole('button', { name: 'Choose a file for Receipt' }).click(),
  ])
  await picker.setFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('x') })
  await dates.getByText('notes.txt is text/plain; image/* is asked for.').waitFor()
  const data = await page.evaluateHandle((bytes) => {
    const transfer = new DataTransfer()
    transfer.items.add(new File([new Uint8Array(bytes)], 'pixel.png', { type: 'image/png' }))
    return transfer
  }, [...pixel])
  await dates.getByText('Drop a file here').dispatchEvent('drop', { dataTransfer: data })
  await dates.getByText('pixel.png').waitFor()
  await shows(page, 'dates', 'receipt: "iVBORw0KGgo')
  await dates.getByRole('button', { name: 'Remove the file of Receipt' }).click()

  const nested = page.getByTestId('form-nested')
  await nested.getByRole('button', { name: 'Add Line' }).click()
  await page.keyboard.type('XYZ-9')
  await shows(page, 'nested', 'sku: "XYZ-9"')
  await page.keyboard.press('Alt+ArrowUp')
  await nested.getByRole('button', { name: 'Move Line 2 up' }).press('Enter')
  assert.match(await valueOf(page, 'nested').innerText(), /lines:[\s\S]*XYZ-9[\s\S]*ABC-1/)
  assert.match((await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))) ?? '', /^Move Line 1 down$/)
  await nested.getByRole('button', { name: 'Remove Line 1' }).click()
  await nested.getByLabel('Express').check()
  await nested.getByLabel('Why express').fill('Today')
  await shows(page, 'nested', 'reason: "Today"')
  await nested.getByRole('radio', { name: 'Card' }).check({ force: true })
  await shows(page, 'nested', 'kind: "card"')
  assert.doesNotMatch(await valueOf(page, 'nested').innerText(), /iban/)
  await nested.getByRole('radio', { name: 'Bank transfer' }).check({ force: true })
  await shows(page, 'nested', 'reason: "Today"')
  await nested.getByRole('button', { name: 'Add Address' }).click()
  await nested.getByLabel('City').fill('Graz')
  await shows(page, 'nested', 'city: "Graz"')
  await nested.getByLabel('Name of a new member').fill('X-Trace')
  await page.keyboard.press('Enter')
  await nested.getByText('There is a member of this name already.').waitFor()
  await nested.getByLabel('Name of a new member').fill('X-More')
  await page.keyboard.press('Enter')
  await nested.getByRole('textbox', { name: 'X-More' }).fill('1')
  await shows(page, 'nested', 'X-More: "1"')
  await nested.getByLabel('Anything').fill('{"a": [1, }')
  await nested.getByText(/Line 1, column 11/).waitFor()
  assert.equal(await nested.getByRole('button', { name: 'Check' }).getAttribute('aria-disabled'), 'true')
  await nested.getByLabel('Anything').fill('{"a": [1]}')
  await shows(page, 'nested', 'anything:')
  await picture(page, 'fields-filled')
  await assertAccessible(page)

  await nested.getByRole('radio', { name: 'JSON' }).click()
  const editor = nested.getByRole('textbox', { name: 'Input as JSON' })
  await editor.waitFor()
  await picture(page, 'fields-json')
  await assertAccessible(page)
  await editor.press('Control+A')
  // By the editor's own key: the browser's way of replacing lines leaves style attributes, which the policy refuses.
  await editor.press('Delete')
  await page.keyboard.insertText('{"tags": ["one"], "unknown": {"stays": true}')
  await nested.getByText(/Line 1, column 45: a comma or } is expected here/).waitFor()
  await page.keyboard.insertText('}')
  await nested.getByRole('radio', { name: 'Form' }).click()
  await nested.getByRole('textbox', { name: 'Tag 1' }).fill('two')
  await shows(page, 'nested', 'stays: true')
  assert.deepEqual(complaints, [])
})

productTest('an output sorts, downloads and runs nothing', async ({ server, browser }) => {
  const { page, complaints } = await gallery(browser, server, DESKTOP)
  const sections = page.getByTestId('output-sections')
  await sections.getByRole('button', { name: 'hours' }).click()
  await sections.getByRole('button', { name: 'hours' }).click()
  assert.match(await sections.getByRole('region', { name: 'Tickets' }).locator('tbody tr').first().innerText(), /4712/)
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    sections.getByRole('button', { name: 'CSV' }).last().click(),
  ])
  assert.equal(download.suggestedFilename(), 'rows.csv')
  await sections.getByRole('radio', { name: 'JSON' }).click()
  await sections.getByText('by_tool').waitFor()
  const hostile = page.getByTestId('output-hostile')
  await hostile.getByText('<img src=x onerror=alert(1)>').waitFor()
  assert.equal(await hostile.locator('img, script, b').count(), 0)
  assert.deepEqual(await hostile.getByRole('link').evaluateAll((links) => links.map(({ href, rel }) => [href, rel])), [
    ['https://evil.example/login', 'noopener noreferrer nofollow external'],
  ])
  await hostile.getByText('(evil.example)').waitFor()
  await hostile.getByText('U+202E').waitFor()
  assert.deepEqual(complaints, [])
})
