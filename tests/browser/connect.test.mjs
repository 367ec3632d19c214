// A program connects by OAuth: the browser is sent here, a person signs in and decides, and the program has tools.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { assertAccessible, assertFits, DESKTOP, openPage, PHONE, picture } from './browser.mjs'
import { asOwner } from './console.mjs'
import { productTest } from './product.mjs'

const PASSWORD = 'a long enough one'
const VERIFIER = 'a-verifier-that-only-the-client-knows-0123456789'
const ours = (complaints) => complaints.filter((text) => !text.startsWith('error: Failed to load resource'))

// The program on this computer that browsers come back to.
async function program(server) {
  const callback = createServer((_, response) => response.end('<!doctype html><title>Back</title><h1>Back</h1>'))
  callback.listen(0, '127.0.0.1')
  await once(callback, 'listening')
  const redirect_uri = `http://127.0.0.1:${callback.address().port}/callback`
  const registered = await fetch(`${server.url}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name: 'Code Helper', redirect_uris: ['http://127.0.0.1/callback'] }),
  })
  const { client_id } = await registered.json()
  const asks = (change = {}) => {
    const challenge = createHash('sha256').update(VERIFIER).digest('base64url')
    const said = {
      response_type: 'code',
      client_id,
      redirect_uri,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    }
    return `${server.url}/oauth/authorize?${new URLSearchParams({ ...said, state: 's', resource: `${server.url}/mcp`, ...change })}`
  }
  const takes = async (code) => {
    const form = { grant_type: 'authorization_code', code, client_id, redirect_uri, code_verifier: VERIFIER }
    const answer = await fetch(`${server.url}/oauth/token`, { method: 'POST', body: new URLSearchParams(form) })
    assert.equal(answer.status, 200)
    return (await answer.json()).access_token
  }
  return { asks, takes, close: () => callback.close() }
}

async function withPassword(server, name, roles) {
  const api = asOwner(server)
  await api('POST', '/api/v1/users', { name, roles })
  const { url } = await api('POST', `/api/v1/users/${name}/reset`, {})
  await api('POST', '/api/v1/session/reset/finish', { token: url.split('#')[1], password: PASSWORD })
}

async function looksRight(page, name) {
  for (const [size, viewport] of Object.entries({ desktop: DESKTOP, phone: PHONE })) {
    await assertFits(page, viewport)
    await picture(page, `${name}-${size}`)
  }
  await page.setViewportSize(DESKTOP)
  await assertAccessible(page)
}

productTest('a program is let in by who signs in, and uses tools in their name', async ({ server, browser }) => {
  await withPassword(server, 'ada', ['author'])
  const api = asOwner(server)
  await api('POST', '/api/v1/agents', { name: 'helper', workspace: 'main' })
  const { asks, takes, close } = await program(server)
  try {
    const { page, complaints } = await openPage(browser)
    await page.goto(asks())
    await page.getByRole('heading', { name: 'Sign in' }).waitFor()
    await page.getByLabel('Name or e-mail').fill('ada')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Let this program use tools in your name?' }).waitFor()
    await page.getByText('Code Helper').waitFor()
    await page.getByText('Nobody checked them').waitFor()
    await page.getByText('a program on this computer').waitFor()
    await looksRight(page, 'connect')

    await page.getByRole('button', { name: 'Do not allow' }).click()
    await page.getByRole('heading', { name: 'Back' }).waitFor()
    assert.equal(new URL(page.url()).searchParams.get('error'), 'access_denied')

    await page.goto(asks())
    await page.getByRole('button', { name: /It acts as/ }).click()
    await page.getByRole('option', { name: 'the agent helper' }).click()
    await page.getByRole('button', { name: 'Allow', exact: true }).click()
    await page.getByRole('heading', { name: 'Back' }).waitFor()
    const back = new URL(page.url()).searchParams
    assert.equal(back.get('state'), 's')
    assert.equal(back.get('iss'), server.url)
    const token = await takes(back.get('code'))
    const listed = await fetch(`${server.url}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    assert.equal(listed.status, 200)
    assert.ok(Array.isArray((await listed.json()).result.tools))
    const held = (await api('GET', '/api/v1/keys')).items.find((key) => key.client)
    assert.deepEqual([held.client.name, held.owner_name, typeof held.agent], ['Code Helper', 'ada', 'string'])
    assert.deepEqual(ours(complaints), [])
  } finally {
    close()
  }
})

productTest('a request that is wrong is told to the person, and goes nowhere', async ({ server, browser }) => {
  await withPassword(server, 'ada', ['member'])
  const { asks, close } = await program(server)
  try {
    const { page, complaints } = await openPage(browser)
    await page.goto(asks({ redirect_uri: 'https://evil.example/callback' }))
    await page.getByLabel('Name or e-mail').fill('ada')
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('alert').filter({ hasText: 'redirect_uri' }).waitFor()
    assert.equal(await page.getByRole('button', { name: 'Allow', exact: true }).count(), 0)
    assert.equal(new URL(page.url()).origin, server.url)
    await looksRight(page, 'connect-refused')
    assert.deepEqual(ours(complaints), [])
  } finally {
    close()
  }
})
