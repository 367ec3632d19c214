// What tests of the console share: being signed in, and the API as the owner for what a test must find there.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { openPage } from './browser.mjs'

// Signs in by the server's own link (the owner, who may everything), on a page of its own.
export async function signedIn(browser, server, viewport, options) {
  const opened = await openPage(browser, viewport, options)
  await opened.page.goto(server.sign_in_url)
  await opened.page.getByRole('button', { name: /^Sign in as / }).click()
  await opened.page.getByTestId('who').waitFor({ state: 'attached' })
  return opened
}

// Signs somebody else in by a link that the owner made.
export async function signedInAs(browser, server, user, viewport, options) {
  const { url } = await asOwner(server)('POST', `/api/v1/users/${user}/sign-in-link`, {})
  return signedIn(browser, { ...server, sign_in_url: url }, viewport, options)
}

// `await api('POST', '/api/v1/calls', {…})` with the key that the server wrote when it first started.
export function asOwner(server) {
  return async (method, path, body, tenant) => {
    const key = (await readFile(server.key_file, 'utf8')).trim()
    return call(server, key, method, path, body, tenant)
  }
}

export async function call(server, key, method, path, body, tenant) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(tenant === undefined ? {} : { 'toolgate-tenant': tenant }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  assert(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}
