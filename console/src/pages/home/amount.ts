// Sums of money, exact: amounts are decimal texts, and adding them as numbers would make cents from nothing.

export function sum(amounts: readonly string[]): string {
  const places = Math.max(0, ...amounts.map((amount) => amount.split('.')[1]?.length ?? 0))
  const total = amounts.reduce((all, amount) => all + scaled(amount, places), 0n)
  const digits = (total < 0n ? -total : total).toString().padStart(places + 1, '0')
  const whole = digits.slice(0, digits.length - places)
  const part = digits.slice(digits.length - places)
  return `${total < 0n ? '-' : ''}${whole}${part ? `.${part}` : ''}`
}

function scaled(amount: string, places: number): bigint {
  const [whole = '0', part = ''] = amount.split('.')
  return BigInt(`${whole}${part.padEnd(places, '0')}`)
}

export function isZero(amount: string): boolean {
  return /^-?0*(\.0*)?$/.test(amount)
}

/** `1234.5` is `1,234.50`, and what is smaller than a cent keeps its digits. */
export function shownAmount(amount: string): string {
  const [whole = '0', part = ''] = amount.split('.')
  const kept = part.replace(/0+$/, '').padEnd(2, '0')
  return `${BigInt(whole).toLocaleString('en')}.${kept}`
}
