import { render } from '@testing-library/react'
import { expect, test, vi } from 'vitest'
import { useSubmitKey } from './submitKey'

function Taker({ act, inDialog = false }: { act: () => void; inDialog?: boolean }) {
  useSubmitKey(act, inDialog)
  return inDialog ? <div role="dialog" /> : null
}

const press = (change: KeyboardEventInit = {}) =>
  window.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, ...change }))

test('the page acts, and a dialog over it instead of it', () => {
  const [page, dialog] = [vi.fn(), vi.fn()]
  const one = render(<Taker act={page} />)
  press()
  press({ ctrlKey: false, metaKey: true })
  expect(page).toHaveBeenCalledTimes(2)
  const over = render(<Taker act={dialog} inDialog />)
  press()
  expect([page.mock.calls.length, dialog.mock.calls.length]).toEqual([2, 1])
  over.unmount()
  // A dialog of others, which takes no such key.
  const other = render(<div role="dialog" />)
  press()
  expect(page).toHaveBeenCalledTimes(2)
  other.unmount()
  press()
  expect(page).toHaveBeenCalledTimes(3)
  one.unmount()
  press()
  expect(page).toHaveBeenCalledTimes(3)
})

test.each([
  { ctrlKey: false },
  { shiftKey: true },
  { altKey: true },
  { repeat: true },
  { isComposing: true },
  { key: 'a' },
])('%o is something else', (change) => {
  const act = vi.fn()
  const { unmount } = render(<Taker act={act} />)
  press(change)
  expect(act).not.toHaveBeenCalled()
  unmount()
})
