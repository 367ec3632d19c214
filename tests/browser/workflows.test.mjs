// Workflows: the graph, what is found, the revisions, a run with its nodes, an answer in place, a call as a node.
import assert from 'node:assert/strict'
import { assertAccessible, assertFits, DESKTOP, PHONE, picture } from './browser.mjs'
import { asOwner, signedIn, signedInAs } from './console.mjs'
import { productTest } from './product.mjs'

const HOSTILE = '<img src=x onerror="document.title=\'owned\'">'

// As in examples/workflows/greet.yaml.
const GREET = {
  version: 1,
  name: 'greet',
  description: `Greets everybody on a list, and asks a person where nobody is on it. ${HOSTILE}`,
  inputs: {
    type: 'object',
    required: ['names'],
    additionalProperties: false,
    properties: { names: { type: 'array', title: 'Names', description: 'Whom to greet.', items: { type: 'string', minLength: 1 } } },
  },
  nodes: [
    { id: 'in', kind: 'input' },
    { id: 'anybody', kind: 'condition', config: { cases: [{ name: 'some', when: 'size(value) > 0' }] } },
    {
      id: 'each',
      kind: 'map',
      title: 'Greet each',
      config: {
        max_parallel: 4,
        body: {
          nodes: [
            { id: 'in', kind: 'input' },
            { id: 'say', kind: 'tool', config: { tool: 'echo@1.0.0' } },
            { id: 'out', kind: 'output', config: { schema: { type: 'object', properties: { greeting: { type: 'string' } } } } },
          ],
          edges: [
            { from: { node: 'in', handle: 'item' }, to: { node: 'say', handle: 'input/text' } },
            { from: { node: 'say', handle: 'output', path: '/text' }, to: { node: 'out', handle: 'greeting' } },
          ],
        },
      },
    },
    {
      id: 'ask',
      kind: 'human',
      config: { title: 'Whom shall we greet?', schema: { type: 'object', required: ['name'], properties: { name: { type: 'string', title: 'One name' } } } },
    },
    {
      id: 'out',
      kind: 'output',
      config: { schema: { type: 'object', properties: { greetings: { type: 'array' }, named: { type: 'string' } } } },
    },
  ],
  edges: [
    { from: { node: 'in', handle: 'names' }, to: { node: 'anybody', handle: 'value' } },
    { from: { node: 'anybody', handle: 'some' }, to: { node: 'each', handle: 'items' } },
    { from: { node: 'anybody', handle: 'else' }, to: { node: 'ask', handle: 'value' } },
    { from: { node: 'each', handle: 'items' }, to: { node: 'out', handle: 'greetings' } },
    { from: { node: 'ask', handle: 'answer', path: '/name' }, to: { node: 'out', handle: 'named' } },
  ],
}

const tab = (page, name) => page.getByRole('tab', { name: new RegExp(`^${name}`) })
const graph = (page) => page.getByRole('img', { name: /^Graph of/ })

productTest('a workflow is looked at: graph, nodes, findings, revisions', async ({ server, browser }) => {
  const api = asOwner(server)
  const { page, complaints } = await signedIn(browser, server)
  await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Workflows' }).click()
  await page.getByRole('heading', { name: 'No workflows yet' }).waitFor()
  await page.getByText('toolgate workflow save').waitFor()
  await assertAccessible(page)
  await picture(page, 'workflows-empty')

  await api('PUT', '/api/v1/workflows/greet', { ...GREET, description: 'As it was first.' })
  await api('PUT', '/api/v1/workflows/greet', GREET)
  await page.reload()
  const row = page.getByRole('row').filter({ hasText: 'greet' })
  await row.getByText('2', { exact: true }).waitFor()
  await assertAccessible(page)
  await picture(page, 'workflows')
  await assertFits(page, PHONE)
  await page.setViewportSize(DESKTOP)
  await row.getByRole('link').click()

  await graph(page).getByText('Greet each').waitFor()
  await graph(page).getByText('echo@1.0.0').waitFor()
  assert.equal(await page.locator('main img').count(), 0)
  await assertAccessible(page)
  await assertFits(page, DESKTOP)
  await picture(page, 'workflow-light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'workflow-dark')
  await page.emulateMedia({ colorScheme: 'light' })
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'workflow-phone')
  await page.setViewportSize(DESKTOP)
  // What the picture shows is there in words.
  const nodes = page.getByRole('region', { name: 'Nodes' })
  await nodes.getByText('Greet each').click()
  await nodes.getByText('anybody.some').waitFor()
  await nodes.locator('details details summary').filter({ hasText: 'say' }).click()
  await nodes.getByText('in.item').waitFor()
  await assertAccessible(page)

  await tab(page, 'Findings').click()
  await page.getByRole('heading', { name: 'Nothing is found' }).waitFor()
  await api('PUT', '/api/v1/tools/echo/enabled', { enabled: false })
  await page.reload()
  await page.getByText(/workflow\.tool/).first().waitFor()
  await assertAccessible(page)
  await picture(page, 'workflow-findings')
  await api('PUT', '/api/v1/tools/echo/enabled', { enabled: true })

  await tab(page, 'Revisions').click()
  await page.getByRole('link', { name: 'Revision 1' }).click()
  await page.getByText('As it was first.').waitFor()
  await page.getByText('revision 1 of 2').waitFor()
  await assertAccessible(page)
  await picture(page, 'workflow-revisions')
  assert.doesNotMatch(await page.title(), /owned/)
  assert.deepEqual(complaints, [])
})

productTest('a workflow is run with its form, and the run shows each node', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('PUT', '/api/v1/workflows/greet', GREET)
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/workflows/greet`)
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  const dialog = page.getByRole('dialog', { name: 'Run greet' })
  await dialog.getByRole('button', { name: /Add/ }).click()
  await dialog.locator('input').last().fill('Ada')
  await assertAccessible(page)
  await picture(page, 'workflow-run-new')
  await dialog.getByRole('button', { name: 'Run', exact: true }).click()
  await page.waitForURL('**/runs/*')
  const workflow = page.getByRole('region', { name: 'Workflow' })
  await workflow.getByRole('region', { name: 'Output' }).getByText('"Ada"').waitFor()
  await graph(page).getByText('skipped').waitFor()
  const say = workflow.locator('details').filter({ hasText: 'each/0/say' })
  await say.locator('summary').click()
  await say.getByText('input/text').waitFor()
  await say.getByRole('link', { name: /Its call of echo/ }).waitFor()
  await assertAccessible(page)
  await assertFits(page, DESKTOP)
  await picture(page, 'workflow-run-light')
  await page.emulateMedia({ colorScheme: 'dark' })
  await assertAccessible(page)
  await picture(page, 'workflow-run-dark')
  await assertFits(page, PHONE)
  await assertAccessible(page)
  await picture(page, 'workflow-run-phone')
  await page.setViewportSize(DESKTOP)

  // The call of a timeline becomes a node.
  await page.getByRole('list', { name: 'Timeline' }).getByRole('link', { name: /echo/ }).click()
  await page.getByRole('dialog', { name: 'Call' }).getByRole('button', { name: 'As a node' }).click()
  const node = page.getByRole('dialog', { name: 'This call as a node' })
  await node.getByText('"tool": "echo@1.0.0"').waitFor()
  await assertAccessible(page)
  await picture(page, 'call-node')
  await node.getByRole('button', { name: 'Done' }).click()
  assert.deepEqual(complaints, [])
})

productTest('a node that asks a person is answered where it waits', async ({ server, browser }) => {
  const api = asOwner(server)
  await api('PUT', '/api/v1/workflows/greet', GREET)
  const run = await api('POST', '/api/v1/workflows/greet/runs?wait=20', { input: { names: [] } })
  assert.equal(run.state, 'waiting_human')
  const { page, complaints } = await signedIn(browser, server)
  await page.goto(`${server.url}/runs/${run.run_id}`)
  const workflow = page.getByRole('region', { name: 'Workflow' })
  await graph(page).getByText('waits').waitFor()
  await assertAccessible(page)
  await picture(page, 'workflow-run-waiting')
  await workflow.getByRole('button', { name: 'Answer' }).click()
  const dialog = page.getByRole('dialog', { name: 'Whom shall we greet?' })
  await dialog.getByLabel(/One name/).fill('Grace')
  await dialog.getByRole('button', { name: 'Answer', exact: true }).click()
  await page.getByText('Answered. The run goes on.').waitFor()
  await workflow.getByRole('region', { name: 'Output' }).getByText('"Grace"').waitFor()
  await page.getByText('live', { exact: true }).waitFor({ state: 'detached' })

  await page.goto(`${server.url}/workflows/greet`)
  await page.getByRole('button', { name: 'More for this workflow' }).click()
  await page.getByRole('menuitem', { name: 'Remove…' }).click()
  await page.getByRole('dialog', { name: 'Remove greet?' }).getByRole('button', { name: 'Remove' }).click()
  await page.waitForURL('**/workflows')
  await page.getByRole('heading', { name: 'No workflows yet' }).waitFor()
  assert.deepEqual(complaints, [])

  await api('PUT', '/api/v1/workflows/greet', GREET)
  const viewer = await api('POST', '/api/v1/users', { name: 'vera', roles: ['viewer'] })
  const seen = await signedInAs(browser, server, viewer.id)
  await seen.page.goto(`${server.url}/workflows/greet`)
  const button = seen.page.getByRole('button', { name: 'Run', exact: true })
  await button.waitFor()
  assert.equal(await button.getAttribute('aria-disabled'), 'true')
  await seen.page.goto(`${server.url}/workflows/nothing`)
  await seen.page.getByRole('heading', { name: /There is no such workflow/ }).waitFor()
})
