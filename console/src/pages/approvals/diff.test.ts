import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { diffLines, folded, memberChanges } from './diff'

const short = (before: string[], after: string[]) =>
  diffLines(before, after).map(({ kind, text }) => `${{ same: ' ', removed: '-', added: '+' }[kind]}${text}`)

describe('diffLines', () => {
  it('keeps what is equal', () => {
    expect(short(['{', 'a', 'b', '}'], ['{', 'a', 'c', '}'])).toEqual([' {', ' a', '-b', '+c', ' }'])
    expect(short([], ['a'])).toEqual(['+a'])
    expect(short(['a', 'b'], ['b'])).toEqual(['-a', ' b'])
  })

  it('marks where two lines differ', () => {
    expect(diffLines(['say hello now'], ['say hallo now']).map(({ mark }) => mark)).toEqual([
      [4, 9],
      [4, 9],
    ])
  })

  it('gives both sides back', () => {
    const lines = fc.array(fc.constantFrom('a', 'b', 'c'))
    fc.assert(
      fc.property(lines, lines, (before, after) => {
        const all = diffLines(before, after)
        expect(all.filter(({ kind }) => kind !== 'added').map(({ text }) => text)).toEqual(before)
        expect(all.filter(({ kind }) => kind !== 'removed').map(({ text }) => text)).toEqual(after)
      }),
    )
  })
})

describe('memberChanges', () => {
  it('names what was added, removed and changed', () => {
    expect(memberChanges({ a: 1, b: { c: 1 }, d: [1] }, { b: { c: 2 }, d: [1], 'e/f': 1 })).toEqual([
      { kind: 'removed', pointer: '/a' },
      { kind: 'changed', pointer: '/b/c' },
      { kind: 'added', pointer: '/e~1f' },
    ])
  })
})

describe('folded', () => {
  it('leaves out what is equal and far away', () => {
    const lines = diffLines(['1', '2', '3', '4', '5', 'x'], ['1', '2', '3', '4', '5', 'y'])
    expect(folded(lines, 1).map((line) => (typeof line === 'number' ? line : line.text))).toEqual([4, '5', 'x', 'y'])
  })
})
