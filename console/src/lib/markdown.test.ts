import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Inline, parseInline, parseMarkdown, safeHref } from './markdown'

const plain = (inside: readonly Inline[]): string =>
  inside.map((one) => ('text' in one ? one.text : plain(one.inside))).join('')

test('blocks', () => {
  const text =
    '# Title\n\nWords\nthat go on.\n\n- one\n- two\n  more\n\n1. first\n\n```sh\nrm -rf *\n```\n> said\n\n---\n'
  const kinds = parseMarkdown(text).map(({ kind }) => kind)
  expect(kinds).toEqual(['heading', 'paragraph', 'list', 'list', 'code', 'quote', 'rule'])
})

test('a table', () => {
  const [table] = parseMarkdown('| a | b |\n| --- | --- |\n| `x` | 1 \\| 2 |\n')
  expect(table).toMatchObject({ kind: 'table', rows: [[[{ kind: 'code', text: 'x' }], [{ text: '1 | 2' }]]] })
})

test('marks within a line', () => {
  expect(parseInline('a **b `c`** _d_ [e](https://x.org/) snake_case_name')).toEqual([
    { kind: 'text', text: 'a ' },
    { kind: 'strong', inside: [{ kind: 'text', text: 'b `c`' }].flatMap(() => parseInline('b `c`')) },
    { kind: 'text', text: ' ' },
    { kind: 'em', inside: [{ kind: 'text', text: 'd' }] },
    { kind: 'text', text: ' ' },
    { kind: 'link', href: 'https://x.org/', inside: [{ kind: 'text', text: 'e' }] },
    { kind: 'text', text: ' snake_case_name' },
  ])
})

test.each([
  'javascript:alert(1)',
  'data:text/html,x',
  'JaVaScRiPt:x',
  '//evil.org',
  '/relative',
  'https://',
  'vbscript:x',
])('a link to %s stays text', (href) => {
  expect(safeHref(href)).toBeUndefined()
  expect(plain(parseInline(`[x](${href})`))).toContain('x')
  expect(parseInline(`[x](${href})`).some(({ kind }) => kind === 'link')).toBe(false)
})

test('markup stays text', () => {
  expect(parseMarkdown('<img src=x onerror=alert(1)>')).toEqual([
    { kind: 'paragraph', inside: [{ kind: 'text', text: '<img src=x onerror=alert(1)>' }] },
  ])
})

test('any text ends, quickly', () => {
  const marks = fc.string({
    unit: fc.constantFrom('*', '_', '`', '[', ']', '(', ')', '#', '|', '-', '\n', ' ', 'a', '>'),
  })
  fc.assert(
    fc.property(marks, (text) => {
      parseMarkdown(text)
    }),
  )
})
