import { describe, expect, it } from 'vitest'
import { isZero, shownAmount, sum } from './amount'

describe('amounts', () => {
  it('are added exactly', () => {
    expect(sum(['0.1', '0.2'])).toBe('0.3')
    expect(sum(['1', '2.005', '0.00000001'])).toBe('3.00500001')
    expect(sum([])).toBe('0')
  })

  it('are shown with cents, and with all that is smaller', () => {
    expect(shownAmount('1234.5')).toBe('1,234.50')
    expect(shownAmount('0.00042')).toBe('0.00042')
    expect(isZero('0.000')).toBe(true)
    expect(isZero('0.001')).toBe(false)
  })
})
