import { describe, expect, it } from 'vitest'
import { distance, nearNames, suggested } from './near'

const tools = [
  { name: 'append_note', title: 'Append a note' },
  { name: 'calculator', title: 'Calculator' },
  { name: 'recalc', title: 'Count again' },
  { name: 'write_file', title: 'Write a file' },
]
const names = tools.map(({ name }) => name)

describe('what is offered while one types', () => {
  it('puts names that begin so before names that hold it, and titles last', () => {
    expect(suggested(tools, 'calc').map(({ name }) => name)).toEqual(['calculator', 'recalc'])
    expect(suggested(tools, 'A file').map(({ name }) => name)).toEqual(['write_file'])
    expect(suggested(tools, '').length).toBe(4)
    expect(suggested(tools, 'zzz')).toEqual([])
  })
})

describe('names that may have been meant', () => {
  it('are near in letters, however they are joined', () => {
    expect(nearNames(names, 'calcualtor')).toEqual(['calculator'])
    expect(nearNames(names, 'writeFile')).toEqual(['write_file'])
    expect(nearNames(names, 'note')).toEqual(['append_note'])
    expect(nearNames(names, 'qqqqqq')).toEqual([])
    expect(nearNames(names, ' ')).toEqual([])
  })

  it('counts letters put in, taken out and changed', () => {
    expect(distance('', 'abc')).toBe(3)
    expect(distance('kitten', 'sitting')).toBe(3)
  })
})
