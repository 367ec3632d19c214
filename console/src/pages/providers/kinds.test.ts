import { expect, it } from 'vitest'
import { addressOf, hostOf, providerForm } from './kinds'

it('knows where a provider is, and to which host its key may go', () => {
  expect(hostOf({ kind: 'anthropic' })).toBe('api.anthropic.com')
  expect(hostOf({ kind: 'openai_chat', base_url: 'http://127.0.0.1:11434/v1' })).toBe('127.0.0.1')
  expect(addressOf({ kind: 'scripted' })).toBeUndefined()
  expect(hostOf({ kind: 'xml', base_url: 'nowhere' })).toBeUndefined()
})

it('asks for a script only of a provider that plays one', () => {
  const form = providerForm({ type: 'object', properties: { prices: {}, script: {}, name: {}, later: {} } })
  const { properties } = form as { properties: Record<string, Record<string, unknown>> }
  expect(properties.script?.['x-field']).toEqual({ visible_if: { kind: ['scripted'] } })
  expect(properties.later).toEqual({})
  expect(properties.name?.title).toBe('Name')
})
