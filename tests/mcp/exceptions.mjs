// What of the official conformance suite does not pass: read from conformance-exceptions.md, so that what people read there
// is what the tests compare with.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

const TEXT = readFileSync(new URL('conformance-exceptions.md', import.meta.url), 'utf8')

// By place and revision, the scenarios in the order of their names.
export function exceptions(place, revision) {
  const rows = TEXT.split('\n').map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()))
  const of = (list) => list?.split(', ') ?? []
  const listed = rows.filter(([places, revisions]) => of(places).includes(place) && of(revisions).includes(revision))
  return listed.flatMap(([, , scenarios]) => of(scenarios).map((name) => name.replaceAll('`', ''))).sort()
}

// What the suite printed, against what is listed. `count` scenarios are run, those that no revision scores too.
export function compare({ code, stdout, stderr }, place, revision, count) {
  const told = `${revision}, ${place}\n${stdout.slice(stdout.indexOf('SUMMARY ==='))}\n${stderr.slice(-4000)}`
  const found = [...stdout.matchAll(/^([✓✗]) (\S+): \d+ passed, (\d+) failed/gmu)]
  const bad = found.filter(([, mark]) => mark === '✗')
  assert.deepEqual(bad.map(([, , name]) => name).sort(), exceptions(place, revision), told)
  assert.equal(found.length, count, told)
  // Which of them count, the suite knows; a warning alone fails none.
  const unscored = new Set([...stdout.matchAll(/^ {2}[✓✗] (\S+) \(/gmu)].map(([, name]) => name))
  assert.equal(code === 0, bad.every(([, , name, failed]) => failed === '0' || unscored.has(name)), told)
}
