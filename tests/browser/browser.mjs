// Chromium for one test, and what a page must not do: complain in its console, break its content
// security policy, or scroll sideways.
import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import AxeBuilder from '@axe-core/playwright'
import { chromium } from 'playwright-core'
import { findChromium } from './find-chromium.mjs'

export const DESKTOP = { width: 1280, height: 800 }
export const PHONE = { width: 390, height: 844 }
const ACTION_MS_MAX = 15_000

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
export async function openPage(browser, viewport = DESKTOP, options = {}) {
  const context = await browser.newContext({ viewport, ...options })
  if (process.env.CONSOLE_DIST) await serveConsole(context, process.env.CONSOLE_DIST)
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`content security policy: ${event.violatedDirective} blocked ${event.blockedURI}`)
    })
  })
  context.setDefaultTimeout(ACTION_MS_MAX)
  const page = await context.newPage()
  const complaints = []
  page.on('pageerror', (error) => complaints.push(`uncaught: ${error.message}`))
  page.on('console', (message) => {
    if (!['error', 'warning'].includes(message.type())) return
    complaints.push(`${message.type()}: ${message.text()} (${message.location().url})`)
  })
  return { page, complaints }
}

// While one writes the console: CONSOLE_DIST names a build of it that is shown instead of the one in the program.
async function serveConsole(context, dist) {
  await context.route('**/*', async (route) => {
    const request = route.request()
    const { pathname } = new URL(request.url())
    const file = join(dist, pathname)
    if (existsSync(file) && statSync(file).isFile()) return route.fulfill({ path: file })
    const isPage = request.resourceType() === 'document' && !/^\/(api|docs|openapi\.json|oidc)/.test(pathname)
    if (!isPage) return route.continue()
    const policy = (await context.request.get(new URL('/healthz', request.url()).href)).headers()['content-security-policy']
    // Where a test sends the browser away, others answer.
    if (policy === undefined) return route.continue()
    return route.fulfill({ path: join(dist, 'index.html'), headers: { 'content-type': 'text/html', 'content-security-policy': policy } })
  })
}

// Nothing that axe can find wrong by WCAG 2.2 AA.
export async function assertAccessible(page) {
  const { violations } = await new AxeBuilder({ page })
    .withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'])
    .analyze()
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' | ')}`)
  assert.deepEqual(found, [], page.url())
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
