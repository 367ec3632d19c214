import { describe, expect, it } from 'vitest'
import { arrange } from './steady'

const rows = (...ids: string[]) => ids.map((id) => ({ id }))
const ids = (list: readonly { id: string }[]) => list.map(({ id }) => id)

describe('arrange', () => {
  it('keeps the rows where they are', () => {
    const { rows: shown, news, gone } = arrange(rows('a', 'b'), rows('n', 'b', 'm'), () => false)
    expect(ids(shown)).toEqual(['a', 'b'])
    expect(news).toBe(2)
    expect([...gone]).toEqual(['a'])
  })

  it('shows all where nothing was shown', () => {
    expect(ids(arrange([], rows('a'), () => false).rows)).toEqual(['a'])
  })

  it('adds what was asked for', () => {
    const { rows: shown, news } = arrange(rows('a'), rows('a', 'b'), () => true)
    expect(ids(shown)).toEqual(['a', 'b'])
    expect(news).toBe(0)
  })

  it('takes the newest of a row', () => {
    const fresh = { id: 'a', state: 'approved' }
    expect(arrange([{ id: 'a', state: 'open' }], [fresh], () => false).rows[0]).toBe(fresh)
  })
})
