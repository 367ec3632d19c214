import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Inline, inlines, markdown, safeAddress } from './markdown'

const plain = (inner: readonly Inline[]): string =>
  inner.map((one) => ('text' in one ? one.text : 'inner' in one ? plain(one.inner) : '\n')).join('')

test('blocks', () => {
  const text =
    '# Title\n\nWords\nthat go on.\n\n- one\n- two\n  more\n\n1. first\n\n```sh\nrm -rf *\n```\n> said\n\n---\n'
  const kinds = markdown(text).map(({ type }) => type)
  expect(kinds).toEqual(['heading', 'paragraph', 'list', 'list', 'code', 'quote', 'rule'])
})

test('a table', () => {
  const [table] = markdown('| a | b |\n| --- | --- |\n| `x` | 1 \\| 2 |\n')
  expect(table).toMatchObject({ type: 'table', rows: [[[{ type: 'code', text: 'x' }], [{ text: '1 | 2' }]]] })
})

test('marks within a line', () => {
  expect(inlines('a **b `c`** _d_ [e](https://x.org/) snake_case_name')).toEqual([
    { type: 'text', text: 'a ' },
    { type: 'strong', inner: [{ type: 'text', text: 'b `c`' }].flatMap(() => inlines('b `c`')) },
    { type: 'text', text: ' ' },
    { type: 'emphasis', inner: [{ type: 'text', text: 'd' }] },
    { type: 'text', text: ' ' },
    { type: 'link', href: 'https://x.org/', inner: [{ type: 'text', text: 'e' }] },
    { type: 'text', text: ' snake_case_name' },
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
  expect(safeAddress(href)).toBeUndefined()
  expect(plain(inlines(`[x](${href})`))).toContain('x')
  expect(inlines(`[x](${href})`).some(({ type }) => type === 'link')).toBe(false)
})

test('a line end flows on, unless two spaces or a backslash stand before it', () => {
  const kinds = (text: string) => inlines(text).map(({ type }) => type)
  expect(kinds('one\ntwo')).toEqual(['text'])
  expect(kinds('one \ntwo')).toEqual(['text'])
  expect(kinds('one  \ntwo')).toEqual(['text', 'break', 'text'])
  expect(kinds('one\\\ntwo')).toEqual(['text', 'break', 'text'])
  expect(plain(inlines('a **b  \nc**'))).toBe('a b\nc')
})

test('markup stays text', () => {
  expect(markdown('<img src=x onerror=alert(1)>')).toEqual([
    { type: 'paragraph', inner: [{ type: 'text', text: '<img src=x onerror=alert(1)>' }] },
  ])
})

test('any text ends, quickly', () => {
  const marks = fc.string({
    unit: fc.constantFrom('*', '_', '`', '[', ']', '(', ')', '#', '|', '-', '\n', ' ', 'a', '>'),
  })
  fc.assert(
    fc.property(marks, (text) => {
      markdown(text)
    }),
  )
})
