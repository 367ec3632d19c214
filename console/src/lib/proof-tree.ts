// The Merkle tree of RFC 6962: a leaf's hash, and the way from it to the root.

const LEAF = 0
const NODE = 1

export async function sha256(...parts: Uint8Array[]): Promise<Uint8Array<ArrayBuffer>> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return new Uint8Array(await crypto.subtle.digest('SHA-256', whole))
}

/** With a zero byte before it, so that an entry can never pass for a node. */
export function leafHash(entry: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return sha256(Uint8Array.of(LEAF), entry)
}

function nodeHash(left: Uint8Array, right: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return sha256(Uint8Array.of(NODE), left, right)
}

export interface Climbed {
  side: 'left' | 'right'
  sibling: Uint8Array
  hash: Uint8Array
}

/** Every node on the way up, the root last; `undefined` where the path is too short or too long for such a tree. */
export async function climb(
  leaf: Uint8Array,
  index: bigint,
  size: bigint,
  path: readonly Uint8Array[],
): Promise<Climbed[] | undefined> {
  if (index >= size) return undefined
  // `fn` and `sn` of RFC 9162 §2.1.3.2.
  let node = index
  let last = size - 1n
  let hash = leaf
  const climbed: Climbed[] = []
  for (const sibling of path) {
    if (last === 0n) return undefined
    const side = (node & 1n) === 1n || node === last ? 'left' : 'right'
    if (side === 'left') {
      hash = await nodeHash(sibling, hash)
      // The last node of a level without a sibling is the same one level higher.
      while ((node & 1n) === 0n && node !== 0n) {
        node >>= 1n
        last >>= 1n
      }
    } else {
      hash = await nodeHash(hash, sibling)
    }
    node >>= 1n
    last >>= 1n
    climbed.push({ side, sibling, hash })
  }
  return last === 0n ? climbed : undefined
}
