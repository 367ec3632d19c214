// A name for a new key that no other key has: two of one name cannot be told apart when one must be revoked.

export function keyName(agent: string, taken: readonly string[]): string {
  const names = new Set(taken)
  const first = `${agent}-key`
  if (!names.has(first)) return first
  let number = 2
  while (names.has(`${first}-${number}`)) number += 1
  return `${first}-${number}`
}
