import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonical } from '../../lib/canonical'
import { cut, layout, lineText, shown, unseenIn, withoutUnseen } from './layout'

const texts = (text: string) => layout(text).map(lineText)

describe('canonical', () => {
  it('sorts members by their UTF-16 units and writes no spaces', () => {
    expect(canonical({ b: [1, null], a: 'x', '\u20ac': 1, A: {} })).toBe('{"A":{},"a":"x","b":[1,null],"€":1}')
  })
})

describe('layout', () => {
  it('shows one member a line', () => {
    expect(texts('{"a":[1,{}],"b":{"c":"d"},"e":[]}')).toEqual([
      '{',
      '  "a": [',
      '    1,',
      '    {}',
      '  ],',
      '  "b": {',
      '    "c": "d"',
      '  },',
      '  "e": []',
      '}',
    ])
  })

  it('leaves numbers as they are stored', () => {
    expect(texts('{"n":9007199254740993}')[1]).toBe('  "n": 9007199254740993')
  })

  it('goes on in a new line after a line end, which stays visible', () => {
    expect(texts('{"t":"a\\nb\\n"}')).toEqual(['{', '  "t": "a\\n', '    b\\n"', '}'])
  })

  it('tells a hidden character from somebody writing its code', () => {
    const parts = layout('{"t":"a\\u{202e}b\\\\u{202e}"}')[1]?.parts ?? []
    expect(parts.filter(({ kind }) => kind === 'hidden')).toEqual([{ kind: 'hidden', text: '\\u{202e}' }])
  })

  it('loses and adds nothing', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = shown(canonical(value))
        const laid = layout(text).flatMap(({ parts }) => parts.map((part) => (part.text === ': ' ? ':' : part.text)))
        // The mark behind a name is the only one that is written with a space.
        expect(laid.join('')).toBe(text)
      }),
    )
  })
})

describe('shown', () => {
  it('writes out what eyes do not see', () => {
    expect(shown('a\u202eb\u{e0041}\u00e9')).toBe('a\\u{202e}b\\u{e0041}\u00e9')
  })
})

describe('cut', () => {
  it('says how much is folded away', () => {
    const lines = layout(`{"t":"${'x'.repeat(100)}","u":1}`)
    const { lines: kept, folded } = cut(lines, 20)
    const total = lines.flatMap(({ parts }) => parts).reduce((sum, { text }) => sum + text.length, 0)
    const left = kept.flatMap(({ parts }) => parts).reduce((sum, { text }) => sum + text.length, 0)
    expect(left).toBe(20)
    expect(folded).toBe(total - 20)
    expect(cut(lines, 10_000).folded).toBe(0)
  })
})

describe('what cannot be seen', () => {
  const value = { 'na\u200bme': ['a\u202eb\n', 1, null] }

  it('is named by its code', () => {
    expect(unseenIn(value)).toEqual(['U+200B', 'U+202E'])
    expect(unseenIn({ a: 'line\nend\t' })).toEqual([])
  })

  it('is taken out of values, and line ends stay', () => {
    expect(withoutUnseen(value)).toEqual({ 'na\u200bme': ['ab\n', 1, null] })
  })
})
