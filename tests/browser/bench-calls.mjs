// How the list of calls bears 100,000 of them: elements, longest task and frame times while it is scrolled, beside a
// plain page as the baseline. By hand: `node tests/browser/bench-calls.mjs`; needs the program built, and sqlite3.
//
// The calls are one real call, copied in the database while no server runs, so that filling takes seconds.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { openBrowser } from './browser.mjs'
import { asOwner, signedIn } from './console.mjs'

const CALLS = Number(process.env.CALLS ?? 100_000)
const FRAMES = 300
const STEP_PX = 160
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PROGRAM = join(resolve(ROOT, process.env.CARGO_TARGET_DIR ?? 'target'), 'debug', 'toolgate')
const TOOLS = ['echo', 'calculator', 'now', 'append_note', 'getExchangeRate']

async function served(data, body) {
  const args = ['serve', '--json', '--examples', '--listen', '127.0.0.1:0', '--data', data]
  const child = spawn(PROGRAM, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(child, 'exit')
  try {
    const [line] = await once(createInterface({ input: child.stdout }), 'line')
    return await body(JSON.parse(line))
  } finally {
    child.kill('SIGTERM')
    await ended
  }
}

function sql(data, text) {
  const { stdout, stderr, status } = spawnSync('sqlite3', ['-bail', join(data, 'toolgate.db')], { input: text, encoding: 'utf8', maxBuffer: 2 ** 28 })
  assert.equal(status, 0, stderr)
  return stdout.trim()
}

// Copies of the one call that is there, a second apart, under ids of their own.
function copy(data) {
  const columns = sql(data, "SELECT name FROM pragma_table_info('calls');").split('\n')
  const now = Date.now()
  const values = Array.from({ length: CALLS - 1 }, (_, index) => {
    const at = now - (index + 1) * 1000
    const id = `${at.toString(16).padStart(12, '0')}7${randomBytes(2).toString('hex').slice(1)}8${randomBytes(8).toString('hex').slice(1)}`
    return `(x'${id}', ${at}, ${index})`
  })
  const lines = ['CREATE TEMP TABLE made (id BLOB, at INTEGER, n INTEGER);']
  for (let from = 0; from < values.length; from += 1000) lines.push(`INSERT INTO made VALUES ${values.slice(from, from + 1000).join(',')};`)
  const tool = `(SELECT id FROM tools WHERE name = CASE n % ${TOOLS.length} ${TOOLS.map((name, place) => `WHEN ${place} THEN '${name}'`).join(' ')} END LIMIT 1)`
  const taken = {
    id: 'made.id',
    call_id: "'c_' || made.n",
    tool_id: `coalesce(${tool}, c.tool_id)`,
    status: "CASE WHEN n % 9 = 0 THEN 'failed' ELSE c.status END",
    error: `CASE WHEN n % 9 = 0 THEN '{"code":"TIMEOUT","message":"late"}' END`,
    created_at: 'made.at',
    started_at: 'made.at',
    completed_at: 'made.at + n % 4000',
    cost: "CASE WHEN n % 4 = 0 THEN '0.0025' END",
  }
  const chosen = columns.map((name) => taken[name] ?? `c.${name}`)
  lines.push(`INSERT INTO calls (${columns.join(', ')}) SELECT ${chosen.join(', ')} FROM made, (SELECT * FROM calls LIMIT 1) c;`)
  sql(data, lines.join('\n'))
  return Number(sql(data, 'SELECT count(*) FROM calls;'))
}

// Scrolls frame by frame and says how long each frame and the longest task took.
function scroll(page) {
  return page.evaluate(
    ([frames, step]) =>
      new Promise((done) => {
        let longest = 0
        new PerformanceObserver((list) => {
          for (const { duration } of list.getEntries()) longest = Math.max(longest, duration)
        }).observe({ entryTypes: ['longtask'] })
        const times = []
        let most = 0
        let before = performance.now()
        const next = (now) => {
          times.push(now - before)
          before = now
          most = Math.max(most, document.querySelectorAll('[role="rowgroup"] [role="row"]').length)
          if (times.length > frames) return done({ times: times.slice(1).sort((one, other) => one - other), longest, most })
          window.scrollBy(0, step)
          requestAnimationFrame(next)
        }
        requestAnimationFrame(next)
      }),
    [FRAMES, STEP_PX],
  )
}

function told(name, { times, longest, most }) {
  const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1)
  console.log(`${name.padEnd(28)} ${String(most).padStart(5)} rows  p50 ${at(0.5)}  p95 ${at(0.95)}  p99 ${at(0.99)}  longest task ${longest.toFixed(0)} ms`)
}

const data = await mkdtemp(join(tmpdir(), 'toolgate-bench-'))
try {
  await served(data, (server) => asOwner(server)('POST', '/api/v1/calls', { tool: 'echo', input: { text: 'hello' } }))
  console.log(`${copy(data).toLocaleString('en')} calls; ${FRAMES} frames of ${STEP_PX} px, times in ms`)
  await served(data, async (server) => {
    const browser = await openBrowser()
    try {
      const { page } = await signedIn(browser, server)
      const plain = await browser.newPage()
      await plain.setContent(`<main>${'<p style="height:40px;margin:0">A plain row</p>'.repeat(2000)}</main>`)
      told('plain page', await scroll(plain))
      await plain.close()
      const began = Date.now()
      await page.goto(`${server.url}/calls`)
      await page.locator('[role="rowgroup"] [role="row"]').first().waitFor()
      console.log(`first rows after ${Date.now() - began} ms`)
      told('calls, pages as they come', await scroll(page))
      // All of them in memory, as after long scrolling.
      const loading = Date.now()
      let last = -1
      for (;;) {
        const { height, words } = await page.evaluate(() => {
          window.scrollTo(0, document.documentElement.scrollHeight)
          return { height: document.documentElement.scrollHeight, words: document.querySelector('header')?.textContent ?? '' }
        })
        if (words.includes(`${CALLS.toLocaleString('en')} calls`)) break
        if (height === last) await page.waitForTimeout(20)
        last = height
        assert(Date.now() - loading < 600_000, `still at ${words}`)
      }
      console.log(`all ${CALLS.toLocaleString('en')} rows after ${((Date.now() - loading) / 1000).toFixed(1)} s of scrolling`)
      await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight / 2))
      await page.waitForTimeout(500)
      const result = await scroll(page)
      told(`calls, all ${CALLS.toLocaleString('en')} loaded`, result)
      assert(result.most < 100, `${result.most} rows are elements`)
    } finally {
      await browser.close()
    }
  })
} finally {
  await rm(data, { recursive: true, force: true })
}
