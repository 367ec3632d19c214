import { expect, it } from 'vitest'
import { everywhereWords, shortAgent } from './AccountPage'

it('says how many sessions end', () => {
  expect(everywhereWords(1)).toMatch(/^You have 1 session: this browser\. It ends/)
  expect(everywhereWords(2)).toMatch(/2 sessions: this browser and one other/)
  expect(everywhereWords(4)).toMatch(/4 sessions: this browser and 3 others/)
  expect(everywhereWords(undefined)).toMatch(/^Every session of yours ends/)
})

it('says which browser it is', () => {
  expect(shortAgent('Mozilla/5.0 (X11; Linux x86_64) Chrome/120.0 Safari/537.36')).toBe('Chrome on Linux')
})
