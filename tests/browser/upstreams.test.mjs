// Servers of others: connected, tried, their tools reviewed, what changed accepted, tokens got, removed.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { assertAccessible, assertFits, DESKTOP, openBrowser, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { startServer } from './server.mjs'

const NOTES = fileURLToPath(new URL('../../examples/upstreams/notes.py', import.meta.url))
const TEST_MS_MAX = 120_000

// A server whose operator lets the small server of the examples be started.
function upstreamTest(name, body) {
  test(name, { timeout: TEST_MS_MAX }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolgate-upstreams-'))
    const program = join(folder, 'notes.py')
    await copyFile(NOTES, program)
    const entries = join(folder, 'entries.yaml')
    await writeFile(entries, `upstreams:\n  notes: {command: [python3, "${program}"]}\n`)
    await chmod(entries, 0o600)
    const server = await startServer({ TOOLGATE_ENTRIES_FILE: entries })
    const browser = await openBrowser()
    try {
      await body({ server, browser, program })
    } finally {
      await browser.close()
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    }
  })
}

const dialogOf = (page, name) => page.getByRole('dialog', { name })

upstreamTest('a server is connected, tried, reviewed; what it changed is accepted; it is removed', async ({ server, browser, program }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/upstreams`)
  await page.getByRole('heading', { name: 'No servers yet' }).waitFor()
  await page.getByText('toolgate upstream add').waitFor()
  assert.equal(await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Connections' }).getAttribute('aria-current'), 'page')
  await assertAccessible(page)
  await picture(page, 'upstreams-empty')

  await page.getByRole('button', { name: 'Connect a server' }).click()
  const dialog = dialogOf(page, 'Connect a server')
  await dialog.getByLabel('Name').fill('notes')
  await dialog.getByRole('button', { name: /It is/ }).click()
  await page.getByRole('option', { name: /a program/ }).click()
  await dialog.getByLabel('Entry').fill('nothing')
  await dialog.getByRole('button', { name: 'Connect', exact: true }).click()
  await dialog.getByText(/nothing/).first().waitFor()
  await dialog.getByLabel('Entry').fill('notes')
  await assertAccessible(page)
  await picture(page, 'upstream-new')
  await dialog.getByRole('button', { name: 'Connect', exact: true }).click()
  await page.waitForURL('**/upstreams/notes')
  await page.getByText('notes is connected: 2 tools.').waitFor()
  const tools = page.getByRole('region', { name: 'Tools' })
  await tools.getByRole('link', { name: 'notes.count_words' }).waitFor()

  await page.getByRole('button', { name: 'Test connection' }).click()
  await page.getByRole('region', { name: 'Test' }).getByText('unchanged').first().waitFor()
  await page.getByRole('button', { name: 'Review notes.count_words' }).click()
  const review = dialogOf(page, /What does notes\.count_words do/)
  await review.getByLabel('How you know').fill('read its code')
  await assertAccessible(page)
  await picture(page, 'upstream-review')
  await review.getByRole('button', { name: 'Say so' }).click()
  await page.getByText('notes.count_words is reviewed.').waitFor()
  await page.getByRole('region', { name: 'To review' }).waitFor({ state: 'detached' })
  assert.equal((await api('GET', '/api/v1/tools/notes.count_words')).egress_class, 'none')

  // What it says of a tool changes: nobody is shown that before it is accepted.
  await writeFile(program, (await readFile(program, 'utf8')).replace('Counts the words', 'Counts all words'))
  await page.getByRole('button', { name: 'Read anew' }).click()
  const change = page.getByRole('article', { name: 'Change of count_words' })
  await change.getByText('description', { exact: true }).first().waitFor()
  await page.getByText('1 change offered').waitFor()
  await assertAccessible(page)
  await picture(page, 'upstream-light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'upstream-dark')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'upstream-phone')
  await page.setViewportSize(DESKTOP)
  await page.emulateMedia({ colorScheme: 'light' })
  // Refused, it waits for nobody; what was accepted goes on, and a mind may change.
  await page.getByRole('button', { name: 'Refuse count_words' }).click()
  await page.getByText('Refused: count_words.').waitFor()
  await change.getByText(/refused by/).waitFor()
  await page.getByText('fine', { exact: true }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Accept all of it' }).count(), 0)
  await assertAccessible(page)
  await assertFits(page, PHONE)
  await page.setViewportSize(DESKTOP)
  await page.getByRole('button', { name: 'Accept count_words' }).click()
  await page.getByText('Accepted: ', { exact: false }).waitFor()
  await change.waitFor({ state: 'detached' })
  await page.getByText('fine', { exact: true }).waitFor()

  await page.goto(`${server.url}/upstreams`)
  await page.getByRole('row').filter({ hasText: 'notes' }).getByText('fine').waitFor()
  await assertAccessible(page)
  await picture(page, 'upstreams')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'upstreams-phone')
  await page.setViewportSize(DESKTOP)
  await page.getByRole('row').filter({ hasText: 'notes' }).getByRole('link').click()
  await page.getByRole('button', { name: 'More for this server' }).click()
  await page.getByRole('menuitem', { name: 'Remove…' }).click()
  await dialogOf(page, 'Remove notes?').getByRole('button', { name: 'Remove' }).click()
  await page.waitForURL('**/upstreams')
  await page.getByRole('heading', { name: 'No servers yet' }).waitFor()
  assert.deepEqual(complaints.filter((text) => !/Failed to load resource/.test(text)), [])
})

// A server that wants tokens, and whoever gives them, at one address. Whoever asks is told yes at once.
async function wanting() {
  const codes = new Map()
  const good = new Set()
  const answers = {
    '/.well-known/oauth-protected-resource/mcp': (base) => ({ resource: `${base}/mcp`, authorization_servers: [base] }),
    '/.well-known/oauth-authorization-server': (base) => ({
      issuer: base,
      authorization_endpoint: `${base}/authorize`,
      token_endpoint: `${base}/token`,
      registration_endpoint: `${base}/register`,
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
    }),
    '/register': () => ({ client_id: 'made', token_endpoint_auth_method: 'none' }),
  }
  const http = createServer(async (request, response) => {
    const base = `http://127.0.0.1:${http.address().port}`
    const url = new URL(request.url, base)
    let body = ''
    for await (const part of request) body += part
    const json = (value, status = 200, headers = {}) =>
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))
    const known = answers[url.pathname]
    if (known) return json(known(base), url.pathname === '/register' ? 201 : 200)
    if (url.pathname === '/authorize') {
      const asked = url.searchParams
      const code = `code-${codes.size + 1}`
      codes.set(code, asked.get('code_challenge'))
      const back = new URL(asked.get('redirect_uri'))
      back.search = new URLSearchParams({ code, state: asked.get('state'), iss: base }).toString()
      const on = `<!doctype html><html lang="en"><title>Yes</title><meta http-equiv="refresh" content="0; url=${back.href.replaceAll('&', '&amp;')}">`
      return response.writeHead(200, { 'content-type': 'text/html' }).end(on)
    }
    if (url.pathname === '/token') {
      const { code, code_verifier } = Object.fromEntries(new URLSearchParams(body))
      const isRight = codes.get(code) === createHash('sha256').update(code_verifier).digest('base64url')
      codes.delete(code)
      if (!isRight) return json({ error: 'invalid_grant' }, 400)
      good.add(`Bearer token-${good.size + 1}`)
      return json({ access_token: `token-${good.size}`, token_type: 'Bearer', expires_in: 3600 })
    }
    // Browsers ask for it whenever they like.
    if (url.pathname === '/favicon.ico') return response.writeHead(204).end()
    if (url.pathname !== '/mcp') return response.writeHead(404).end()
    if (!good.has(request.headers.authorization)) {
      const where = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`
      return json({}, 401, { 'www-authenticate': where })
    }
    if (request.method !== 'POST') return response.writeHead(405).end()
    const { id, method } = JSON.parse(body)
    const tool = { name: 'say', description: 'Says a word. Use it to greet.', inputSchema: { type: 'object', properties: {} } }
    const results = {
      initialize: { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'web' } },
      'tools/list': { tools: [tool] },
    }
    if (id === undefined) return response.writeHead(202).end()
    const unknown = { error: { code: -32601, message: 'unknown method' } }
    return json({ jsonrpc: '2.0', id, ...(results[method] ? { result: results[method] } : unknown) })
  })
  await new Promise((done) => http.listen(0, '127.0.0.1', done))
  const { port } = http.address()
  return { port, url: `http://127.0.0.1:${port}/mcp`, close: () => http.close() }
}

upstreamTest('a server that wants tokens is connected by a browser, and disconnected', async ({ server, browser }) => {
  const api = asOwner(server)
  const other = await wanting()
  try {
    await api('POST', '/api/v1/egress/openings', { host: '127.0.0.1', port: other.port, scheme: 'http', reason: 'a test' }, 'system')
    const { page, complaints } = await signedIn(browser, server)
    await page.goto(`${server.url}/upstreams`)
    await page.getByRole('button', { name: 'Connect a server' }).click()
    const dialog = dialogOf(page, 'Connect a server')
    await dialog.getByLabel('Name').fill('web')
    await dialog.getByRole('textbox', { name: 'Address' }).fill(other.url)
    await dialog.getByRole('button', { name: /It wants/ }).click()
    await page.getByRole('option', { name: /OAuth/ }).click()
    await assertAccessible(page)
    await picture(page, 'upstream-new-oauth')
    await dialog.getByRole('button', { name: 'Connect', exact: true }).click()
    await page.waitForURL('**/upstreams/web')
    const connection = page.getByRole('region', { name: 'Connection' })
    await connection.getByText(/Nobody is connected/).waitFor()
    await assertAccessible(page)
    await picture(page, 'upstream-unconnected')
    // There, said yes to, and back: without anything to copy.
    await connection.getByRole('button', { name: 'Connect', exact: true }).click()
    await page.waitForURL('**/upstreams/web')
    await connection.getByText('The organisation').waitFor()
    await page.getByRole('region', { name: 'Tools' }).getByRole('link', { name: 'web.say' }).waitFor()
    assert.doesNotMatch(page.url(), /code/)
    await assertAccessible(page)
    await picture(page, 'upstream-connected')

    await connection.getByRole('button', { name: 'Disconnect…' }).click()
    await dialogOf(page, 'Disconnect web?').getByRole('button', { name: 'Disconnect' }).click()
    await connection.getByText(/Nobody is connected/).waitFor()
    await page.goto(`${server.url}/callback?code=x`)
    await page.getByRole('heading', { name: 'Nothing is being connected in this tab' }).waitFor()
    await assertAccessible(page)
    assert.deepEqual(complaints, [])

    // Whose connection a call takes is part of where it is: nothing goes there until that is accepted.
    await page.goto(`${server.url}/upstreams/web`)
    await page.getByRole('button', { name: 'More for this server' }).click()
    await page.getByRole('menuitem', { name: 'Edit…' }).click()
    const edit = dialogOf(page, 'Edit web')
    await edit.getByRole('button', { name: /Whose connection/ }).click()
    await page.getByRole('option', { name: /each caller/ }).click()
    await edit.getByRole('button', { name: 'Save' }).click()
    await page.getByText('moved', { exact: true }).waitFor()
    await assertAccessible(page)
    await picture(page, 'upstream-moved')
    await page.getByRole('button', { name: 'Accept where it is, and all it offers' }).click()
    await page.getByText('moved', { exact: true }).waitFor({ state: 'detached' })
    assert.deepEqual((await api('GET', '/api/v1/upstreams/web')).auth, { oauth: { per: 'user', grant: 'code' } })

    // Whoever is no operator connects for themselves, where a call's error sent them.
    const member = await api('POST', '/api/v1/users', { name: 'mia', roles: ['member'] })
    const mia = await signedInAs(browser, server, member.id)
    await mia.page.goto(`${server.url}/upstreams/web`)
    await mia.page.getByRole('button', { name: 'Connect', exact: true }).waitFor()
    await assertAccessible(mia.page)
    await mia.page.getByRole('button', { name: 'Connect', exact: true }).click()
    await mia.page.getByText('web is connected.').waitFor()
    await mia.page.goto(`${server.url}/upstreams`)
    await mia.page.getByRole('heading', { name: 'Operators look after servers' }).waitFor()
    assert.deepEqual(mia.complaints, [])
  } finally {
    other.close()
  }
})
