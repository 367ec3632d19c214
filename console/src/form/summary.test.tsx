import { cleanup, render, screen, within } from '@testing-library/react'
import { afterEach, expect, test } from 'vitest'
import type { Finding } from '../api/errors'
import type { JsonSchema } from './json'
import { SchemaForm } from './SchemaForm'

afterEach(cleanup)

const SCHEMA: JsonSchema = {
  type: 'object',
  properties: { seconds: { type: 'number' }, text: { type: 'string' } },
}

function shown(findings: readonly Finding[]) {
  render(<SchemaForm schema={SCHEMA} value={{ seconds: 1 }} onChange={() => {}} findings={findings} id="f" />)
  return within(screen.getByRole('group', { name: /to correct/ }))
}

test('what stands at its field is said there alone, and the line on top leads to it', () => {
  const summary = shown([{ pointer: '/seconds', message: 'Too many.' }])
  expect(screen.getAllByText('Too many.')).toHaveLength(1)
  expect(summary.queryByText('Too many.')).toBeNull()
  summary.getByRole('button', { name: 'Seconds' }).click()
  expect(document.activeElement?.id).toBe('f/seconds')
})

test('what has no field is said on top', () => {
  const summary = shown([
    { pointer: '', message: 'Not both at once.' },
    { pointer: '/gone', message: 'Nobody knows it.' },
    { pointer: '/text', message: 'Too short.' },
  ])
  summary.getByText('Not both at once.')
  summary.getByText('Nobody knows it.')
  expect(summary.queryByText('Too short.')).toBeNull()
})
