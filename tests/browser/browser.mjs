// Chromium for one test, and what a page must not do: complain in its console, break its content
// security policy, or scroll sideways.
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { findChromium } from './find-chromium.mjs'

export const DESKTOP = { width: 1280, height: 800 }
export const PHONE = { width: 390, height: 844 }

const ARGS = [
  '--no-sandbox', // the tests also run as root, and open nothing but our own pages
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

// A headless Chromium with a new, empty profile.
export async function openBrowser() {
  const executablePath = findChromium()
  assert(executablePath, 'Chromium is not installed; run scripts/setup')
  return chromium.launch({ executablePath, args: ARGS })
}

// A page with no cookies of any other, and the list of its complaints, which grows as it runs.
export async function openPage(browser, viewport = DESKTOP) {
  const context = await browser.newContext({ viewport })
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`content security policy: ${event.violatedDirective} blocked ${event.blockedURI}`)
    })
  })
  const page = await context.newPage()
  const complaints = []
  page.on('pageerror', (error) => complaints.push(`uncaught: ${error.message}`))
  page.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return
    complaints.push(`${message.type()}: ${message.text()} (${message.location().url})`)
  })
  return { page, complaints }
}

export async function assertFits(page, viewport) {
  await page.setViewportSize(viewport)
  const { scrollWidth, clientWidth } = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    return { scrollWidth, clientWidth }
  })
  assert(scrollWidth <= clientWidth, `${page.url()} is ${scrollWidth} px wide on a screen of ${clientWidth} px`)
}

// Keeps a picture when SCREENSHOTS names a folder.
export async function picture(page, name) {
  const folder = process.env.SCREENSHOTS
  if (!folder) return
  await mkdir(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
}
