// @vitest-environment node
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonical } from './canonical'
import { type CheckId, type Evidence, type ShownCall, verify } from './proof'
import { tampered } from './proof-tamper'
import { base64, readProof, Unreadable } from './proof-text'
import { climb, leafHash, sha256 } from './proof-tree'
// Made by `node scripts/capture-proof.mjs` from a real server.
import captured from './proof-vectors.json'

const vectors = captured as unknown as { shown: ShownCall; evidence: Evidence }[]
const names = vectors.map(({ shown }) => `${shown.status} ${shown.id}`)

/** One byte of a text becomes another, as in a file or a database. */
function changed(text: string, at: number, by: number): string {
  const bytes = new TextEncoder().encode(text)
  const place = at % bytes.length
  bytes[place] = ((bytes[place] ?? 0) + by) % 256
  return new TextDecoder().decode(bytes)
}

const anyChange = fc.record({ vector: fc.nat(vectors.length - 1), at: fc.nat(), by: fc.integer({ min: 1, max: 255 }) })

async function fails(change: (evidence: Evidence) => Evidence, vector: number): Promise<CheckId | undefined> {
  const { evidence, shown } = vectors[vector] ?? { evidence: {} as Evidence, shown: {} as ShownCall }
  const { holds, broken } = await verify(change(evidence), shown)
  expect(holds).toBe(false)
  return broken?.id
}

describe('what a server proved', () => {
  it.each(names.map((name, index) => [name, index] as const))('holds: %s', async (_, index) => {
    const vector = vectors[index]
    if (!vector) throw new Error('no vector')
    const { checks, holds, broken } = await verify(vector.evidence, vector.shown)
    expect(broken).toBeUndefined()
    expect(checks.map(({ id, outcome }) => `${id} ${outcome}`)).toEqual(
      ['entry', 'digest', 'path', 'head', 'signature', 'payloads'].map((id) => `${id} holds`),
    )
    expect(holds).toBe(true)
  })

  it('is no excuse for showing something', async () => {
    const { evidence, shown } = vectors[0] ?? {}
    if (!evidence || !shown) throw new Error('no vector')
    const { checks, holds } = await verify({ ...evidence, payload: null }, { ...shown, input: { made: 'up' } })
    expect(checks.find(({ id }) => id === 'payloads')?.outcome).toBe('broken')
    expect(holds).toBe(false)
  })
})

describe('what was changed is noticed', () => {
  it('in any byte of the entry', () =>
    fc.assert(
      fc.asyncProperty(anyChange, async ({ vector, at, by }) => {
        const broken = await fails((evidence) => ({ ...evidence, entry: changed(evidence.entry, at, by) }), vector)
        expect(['entry', 'digest']).toContain(broken)
      }),
    ))

  it('in any byte of the proof: index, path, head and signature', () =>
    fc.assert(
      fc.asyncProperty(anyChange, async ({ vector, at, by }) => {
        await fails((evidence) => ({ ...evidence, proof: changed(evidence.proof, at, by) }), vector)
      }),
    ))

  it('in any byte of the key and of the receipt', () =>
    fc.assert(
      fc.asyncProperty(anyChange, async ({ vector, at, by }) => {
        await fails((evidence) => ({ ...evidence, keys: evidence.keys.map((key) => changed(key, at, by)) }), vector)
        await fails(
          ({ receipt, ...rest }) => ({
            ...rest,
            receipt: { ...receipt, entry_digest: changed(receipt.entry_digest, at, by) },
          }),
          vector,
        )
        await fails(
          ({ receipt, ...rest }) => ({ ...rest, receipt: { ...receipt, log: changed(receipt.log, at, by) } }),
          vector,
        )
      }),
    ))

  it('in any byte of what the entry commits to', () =>
    fc.assert(
      fc.asyncProperty(anyChange, async ({ vector, at, by }) => {
        const broken = await fails((evidence) => {
          const { payload } = evidence
          if (!payload?.input) throw new Error('no payload')
          return { ...evidence, payload: { ...payload, input: changed(payload.input, at, by) } }
        }, vector)
        expect(broken).toBe('payloads')
      }),
    ))

  it('in what the page shows', async () => {
    for (const { evidence, shown } of vectors) {
      const broken = async (more: Partial<ShownCall>) => (await verify(evidence, { ...shown, ...more })).broken?.id
      expect(await broken({ input: { other: 1 } })).toBe('payloads')
      expect(await broken({ output: 'made up', error: undefined })).toBe('payloads')
      expect(await broken({ status: 'cancelled' })).toBe('entry')
      expect(await broken({ id: '00000000-0000-7000-8000-000000000000' })).toBe('entry')
    }
  })

  it('by the button that shows it', async () => {
    for (const [vector, { evidence }] of vectors.entries()) {
      const { entry, at, was, becomes } = tampered(evidence.entry)
      expect(entry).not.toBe(evidence.entry)
      expect([evidence.entry.charAt(at), entry.charAt(at)]).toEqual([was, becomes])
      expect(await fails((rest) => ({ ...rest, entry }), vector)).toBe('digest')
    }
  })
})

describe('what cannot be checked', () => {
  it('is said of payloads that were erased, and the log stays true', async () => {
    const { evidence, shown } = vectors[0] ?? {}
    if (!evidence || !shown) throw new Error('no vector')
    const { input: _input, output: _output, error: _error, ...erased } = shown
    const { checks, holds } = await verify({ ...evidence, payload: null }, erased)
    expect(checks.find(({ id }) => id === 'payloads')?.outcome).toBe('skipped')
    expect(holds).toBe(true)
  })

  it('is no excuse for showing something', async () => {
    const { evidence, shown } = vectors[0] ?? {}
    if (!evidence || !shown) throw new Error('no vector')
    const { checks, holds } = await verify({ ...evidence, payload: null }, { ...shown, input: { made: 'up' } })
    expect(checks.find(({ id }) => id === 'payloads')?.outcome).toBe('broken')
    expect(holds).toBe(false)
  })
})

describe('the tree', () => {
  /** The root by RFC 6962's own recursion, and the path to a leaf. */
  async function tree(leaves: Uint8Array[]): Promise<Uint8Array> {
    if (leaves.length === 1 && leaves[0]) return leaves[0]
    const half = 2 ** Math.ceil(Math.log2(leaves.length) - 1)
    return sha256(Uint8Array.of(1), await tree(leaves.slice(0, half)), await tree(leaves.slice(half)))
  }
  async function path(leaves: Uint8Array[], index: number): Promise<Uint8Array[]> {
    if (leaves.length === 1) return []
    const half = 2 ** Math.ceil(Math.log2(leaves.length) - 1)
    return index < half
      ? [...(await path(leaves.slice(0, half), index)), await tree(leaves.slice(half))]
      : [...(await path(leaves.slice(half), index - half)), await tree(leaves.slice(0, half))]
  }

  it('is climbed to its root from every leaf of every size', async () => {
    for (let size = 1; size <= 20; size += 1) {
      const leaves = await Promise.all(Array.from({ length: size }, (_, leaf) => leafHash(Uint8Array.of(leaf))))
      const root = await tree(leaves)
      for (const [index, leaf] of leaves.entries()) {
        const siblings = await path(leaves, index)
        const climbed = await climb(leaf, BigInt(index), BigInt(size), siblings)
        expect(climbed?.at(-1)?.hash ?? leaf).toEqual(root)
        expect(await climb(leaf, BigInt(index), BigInt(size), [...siblings, leaf])).toBeUndefined()
        if (siblings.length > 0)
          expect(await climb(leaf, BigInt(index), BigInt(size), siblings.slice(1))).toBeUndefined()
        expect(await climb(leaf, BigInt(size), BigInt(size), siblings)).toBeUndefined()
      }
    }
  })
})

describe('texts have one spelling', () => {
  it.each(['', 'AAA', 'AAB=', 'A A=', 'AA==\n', 'A_A='])('base64 %j', (text) => {
    if (text === '') expect(base64(text)).toHaveLength(0)
    else expect(() => base64(text)).toThrow(Unreadable)
  })

  it.each([
    '',
    'c2sp.org/tlog-proof@v1\nindex 1',
    'c2sp.org/tlog-proof@v2\nindex 1\n\nx',
    'c2sp.org/tlog-proof@v1\nindex 01\n\nx\n\n— a b\n',
  ])('proof %j', (text) => {
    expect(() => readProof(text)).toThrow(Unreadable)
  })

  it('canonical JSON is what it was made of, whatever the order', () => {
    expect(canonical({ b: 1, a: ['é', 1.5, 1e-7, null, true], '\u{1f600}': 0, '\ufb33': 0 })).toBe(
      '{"a":["é",1.5,1e-7,null,true],"b":1,"\u{1f600}":0,"\ufb33":0}',
    )
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonical(value)
        expect(canonical(JSON.parse(text))).toBe(text)
      }),
    )
  })
})
