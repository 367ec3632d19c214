import { expect, it } from 'vitest'
import { keyName } from './keyName'

it('proposes a name that no key has', () => {
  expect(keyName('writer', [])).toBe('writer-key')
  expect(keyName('writer', ['writer-key', 'writer-key-3'])).toBe('writer-key-2')
  expect(keyName('writer', ['writer-key', 'writer-key-2'])).toBe('writer-key-3')
})
