import { cleanup, fireEvent, render, screen } from '@testing-library/react'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { Json } from '../form/json'
import { inlines, looksLikeMarkdown, markdown, safeAddress } from '../lib/markdown'
import { cellWords, chartOf, csvOf, radarOf, rankingOf, sortedRows, tableOf } from './kinds'
import { Output } from './Output'

afterEach(cleanup)

/** On a machine that does other things too. */
const SOON_MS = 3_000
const quickly = <Answer,>(work: () => Answer): Answer => {
  const from = performance.now()
  const answer = work()
  expect(performance.now() - from).toBeLessThan(SOON_MS)
  return answer
}

describe('shapes', () => {
  it('reads rows as a table with all their columns', () => {
    const table = tableOf([{ a: 1 }, { a: 2, b: 'x' }])
    expect(table?.columns).toEqual([
      { key: 'a', label: 'a', isNumeric: true },
      { key: 'b', label: 'b', isNumeric: false },
    ])
    expect(tableOf([{ a: 1 }, 2])).toBeUndefined()
    expect(
      tableOf([{ a: 1, b: 2 }], { columns: ['b', { key: 'a', label: 'A' }] })?.columns.map(({ label }) => label),
    ).toEqual(['b', 'A'])
  })
  it('sorts numbers as numbers, names as people do, and leaves gaps at the end', () => {
    const by = (rows: Json[], way: 'up' | 'down') =>
      sortedRows(
        rows.map((a) => ({ a })),
        'a',
        way,
      ).map(({ a }) => a)
    expect(by([10, null, 9], 'up')).toEqual([9, 10, null])
    expect(by([10, null, 9], 'down')).toEqual([10, 9, null])
    expect(by(['item 10', 'item 9'], 'up')).toEqual(['item 9', 'item 10'])
  })
  it('writes CSV that a spreadsheet does not run', () => {
    const table = tableOf([
      { a: '=1+1', b: 'x,"y"' },
      { a: -5, b: null },
    ])
    expect(table && csvOf(table)).toBe('a,b\r\n\'=1+1,"x,""y"""\r\n-5,')
  })
  it('finds the axis and the numbers of a chart', () => {
    const rows = [
      { day: '2026-01-01', calls: 3, note: 'x' },
      { day: '2026-01-02', calls: 4, note: 'y' },
    ]
    expect(chartOf(rows)).toMatchObject({
      x: { name: 'day', kind: 'time' },
      series: [{ name: 'calls', values: [3, 4] }],
    })
    expect(chartOf({ a: 1, b: 2 })).toMatchObject({ x: { kind: 'name', values: ['a', 'b'] } })
    expect(chartOf({ labels: ['a', 'b'], series: [{ name: 's', values: [1, 2] }] })).toMatchObject({
      series: [{ name: 's', values: [1, 2] }],
    })
    expect(chartOf('text')).toBeUndefined()
    expect(radarOf({ a: 1, b: 2, c: 4 })).toMatchObject({ axes: ['a', 'b', 'c'], max: 4 })
    expect(rankingOf([{ title: 'A', score: 2 }, 'B'])).toEqual([
      { name: 'A', score: 2, note: '' },
      { name: 'B', score: undefined, note: '' },
    ])
  })
})

describe('Markdown', () => {
  it('has no HTML and leads only to the web', () => {
    expect(inlines('[x](javascript:alert(1)) <b>y</b>')).toEqual([
      { type: 'text', text: '[x](javascript:alert(1)' },
      { type: 'text', text: ') <b>y</b>' },
    ])
    expect(inlines('[x](https://a.test/)')).toEqual([
      { type: 'link', href: 'https://a.test/', inner: [{ type: 'text', text: 'x' }] },
    ])
    for (const address of [
      'javascript:alert(1)',
      'data:text/html,x',
      'https:',
      ' http://x',
      'file:///etc/passwd',
      '//a.test',
    ]) {
      expect(safeAddress(address), address).toBeUndefined()
    }
  })
  it('knows the usual blocks', () => {
    const text =
      '# A\n\ntext **b**\n\n- one\n  - two\n- three\n\n```\n<b>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n\n---'
    expect(markdown(text).map(({ type }) => type)).toEqual([
      'heading',
      'paragraph',
      'list',
      'code',
      'table',
      'quote',
      'rule',
    ])
    expect(looksLikeMarkdown(text)).toBe(true)
    expect(looksLikeMarkdown('a | b and 2 * 3 * 4 in snake_case')).toBe(false)
  })
  it('ends for any text, and soon', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[`*_[\]()#>|\- \n1.~a\\]*$/), (text) => Array.isArray(markdown(text))),
      { numRuns: 500 },
    )
    for (const hostile of ['[', '*', '`', '_', '**a', '> ', '- ', '|', '[a](', '  - ', '#']) {
      quickly(() => markdown(hostile.repeat(20_000 / hostile.length)))
      quickly(() => looksLikeMarkdown(hostile.repeat(20_000 / hostile.length)))
    }
  })
})

describe('hostile results', () => {
  const deep = (levels: number): unknown => {
    let value: unknown = 1
    for (let level = 0; level < levels; level += 1) value = level % 2 ? [value] : { a: value }
    return value
  }
  it.each<[string, unknown]>([
    ['a megabyte of text', { text: '<img src=x onerror=alert(1)>'.repeat(40_000) }],
    ['hidden characters only', '\u202e'.repeat(1_000_000)],
    ['deep nesting', deep(20_000)],
    ['100,000 rows', Array.from({ length: 100_000 }, (_, id) => ({ id, name: `n${id}` }))],
    ['many columns', [Object.fromEntries(Array.from({ length: 5_000 }, (_, id) => [`c${id}`, id]))]],
    ['a list of everything', [1, 'a', null, [2], { b: 3 }]],
    ['odd names', { __proto__: 1, constructor: 2, toString: { hasOwnProperty: 1 } }],
  ])('%s', (_, result) => {
    quickly(() => render(<Output result={result} />))
    expect(document.querySelectorAll('*').length).toBeLessThan(45_000)
    expect(document.querySelector('img, script')).toBeNull()
    quickly(() => fireEvent.click(screen.getByRole('radio', { name: 'JSON' })))
    expect(document.querySelector('img, script')).toBeNull()
  })
  it('are cut where they are cells', () => {
    expect(cellWords('x'.repeat(1_000_000)).length).toBeLessThan(500)
  })
  it('of a wrong shape for their section are shown as they are', () => {
    const sections = (['summary', 'table', 'chart', 'radar', 'ranking', 'custom'] as const).map((type) => ({
      key: type,
      label: type,
      type,
    }))
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const result = Object.fromEntries(sections.map(({ key }) => [key, value]))
        const { unmount } = render(<Output result={result} sections={sections} />)
        unmount()
      }),
      { numRuns: 30 },
    )
  })
})
