import { describe, expect, it } from 'vitest'
import { constraintOf, constraintWords, isExact, kindsFor, leavesOf, suggestion } from './constraints'

const leaves = leavesOf({ path: 'notes/may/a.txt', n: 3, url: 'https://api.example.com/x', list: [{ 'a/b': true }] })
const leaf = (pointer: string) => leaves.find((one) => one.pointer === pointer) ?? { pointer, value: null }

describe('constraints from arguments', () => {
  it('offers every value by its pointer', () => {
    expect(leaves.map(({ pointer }) => pointer)).toEqual(['/path', '/n', '/url', '/list'])
  })

  it('offers the whole where there is too much, and what has no members as it is', () => {
    const many = Object.fromEntries(Array.from({ length: 41 }, (_, index) => [`a${index}`, index]))
    expect(leavesOf(many)).toEqual([{ pointer: '', value: many }])
    expect(leavesOf({ a: {}, b: [] })).toEqual([
      { pointer: '/a', value: {} },
      { pointer: '/b', value: [] },
    ])
  })

  it('is exact only while nothing is loosened', () => {
    const choices = leaves.map(({ pointer }) => ({ pointer, kind: 'const' as const, text: '' }))
    expect(isExact(choices, leaves)).toBe(true)
    expect(isExact(choices.slice(1), leaves)).toBe(false)
    expect(isExact([{ pointer: '/n', kind: 'max', text: '5' }, ...choices.slice(1)], leaves)).toBe(false)
  })

  it('offers what fits the value', () => {
    expect(kindsFor(leaf('/path')).map(({ id }) => id)).toEqual(['const', 'path_under', 'prefix'])
    expect(kindsFor(leaf('/n')).map(({ id }) => id)).toEqual(['const', 'max'])
    expect(kindsFor(leaf('/url')).map(({ id }) => id)).toEqual(['const', 'url_host', 'prefix'])
    expect(suggestion(leaf('/path'), 'path_under')).toBe('notes/may')
    expect(suggestion(leaf('/url'), 'url_host')).toBe('api.example.com')
  })

  it('writes what the API takes', () => {
    expect(constraintOf({ pointer: '/n', kind: 'max', text: '5' }, leaves)).toEqual({ pointer: '/n', max: 5 })
    expect(constraintOf({ pointer: '/n', kind: 'max', text: 'x' }, leaves)).toBeUndefined()
    expect(constraintOf({ pointer: '/n', kind: 'const', text: '' }, leaves)).toEqual({ pointer: '/n', const: 3 })
    expect(constraintOf({ pointer: '/path', kind: 'path_under', text: 'notes' }, leaves)).toEqual({
      pointer: '/path',
      path_under: 'notes',
    })
    expect(constraintWords({ pointer: '/path', kind: 'path_under', text: 'notes' }, leaves)).toBe(
      'path is a path under "notes"',
    )
  })
})
