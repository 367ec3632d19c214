import { cleanup, render, screen } from '@testing-library/react'
import { afterEach, expect, it } from 'vitest'
import { CallError } from './CallError'

afterEach(cleanup)

it('a traceback keeps its lines and how they are indented, and is told once', () => {
  const traceback = 'Traceback (most recent call last):\n  line 4, in main\n    return 1 / 0\nZeroDivisionError\n'
  const details = { reason: 'exception', line: 4, traceback }
  const error = { code: 'SANDBOX_ERROR', message: 'ZeroDivisionError', details } as never
  const { container } = render(<CallError error={error} call={{ name: 'mine' }} />)
  expect(container.querySelector('pre')?.textContent).toBe(traceback.trimEnd())
  expect(screen.queryByText(/traceback:/)).toBeNull()
  expect(screen.getByText(/line:/)).toBeTruthy()
})
