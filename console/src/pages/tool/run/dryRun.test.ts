import { describe, expect, it } from 'vitest'
import { withoutDryRun, withoutDryRunValue } from './dryRun'

const flag = { type: 'boolean', default: false }
const schema = { type: 'object', required: ['path'], properties: { path: { type: 'string' }, dry_run: flag } }

describe('a dry run by button', () => {
  it('takes the place of the member', () => {
    expect(withoutDryRun(schema)).toEqual({ ...schema, properties: { path: { type: 'string' } } })
    expect(withoutDryRunValue(schema, { path: 'a', dry_run: true })).toEqual({ path: 'a' })
  })

  it('leaves a member of that name that is something else, or is needed', () => {
    const other = { ...schema, properties: { dry_run: { type: 'string' } } }
    const needed = { ...schema, required: ['dry_run'] }
    expect(withoutDryRun(other)).toBe(other)
    expect(withoutDryRun(needed)).toBe(needed)
    expect(withoutDryRunValue(other, { dry_run: 'x' })).toEqual({ dry_run: 'x' })
  })
})
