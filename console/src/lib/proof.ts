// Checks in the browser that a call is in the log: from the entry's own bytes to the signature of the log's key. Nothing
// the server says about the result is used, only what it says the evidence is. The key comes from the server too, so
// whoever wants to know for sure compares it with the one they kept.
import { canonical } from './canonical'
import {
  base64,
  bytesOf,
  type Head,
  hex,
  isLogKey,
  type ProofText,
  readHead,
  readKey,
  readProof,
  Unreadable,
  type VerifierKey,
} from './proof-text'
import { climb, leafHash, sha256 } from './proof-tree'

/** What `GET /api/v1/calls/{call}/proof` answers. */
export interface Evidence {
  receipt: { entry_digest: string; log: string; index?: number | null }
  /** The exact text that was hashed. */
  entry: string
  /** A C2SP tlog-proof: index, path, signed head. */
  proof: string
  keys: readonly string[]
  payload?: Payload | null
}

export interface Payload {
  salt: string
  input?: string | null
  output?: string | null
  error?: string | null
}

/** The call as the page shows it. */
export interface ShownCall {
  id: string
  status: string
  input?: unknown
  output?: unknown
  error?: unknown
}

export type CheckId = 'entry' | 'digest' | 'path' | 'head' | 'signature' | 'payloads'
/** `skipped`: it cannot be checked here, and the words say why. */
export type Outcome = 'holds' | 'broken' | 'skipped'

export interface Check {
  id: CheckId
  title: string
  outcome: Outcome
  words: string
  /** What was compared, for people who compare themselves. */
  values: readonly { label: string; value: string }[]
}

export interface Verification {
  checks: readonly Check[]
  /** The first step that failed. */
  broken: Check | undefined
  /** Everything a log must show was shown; payloads that were erased do not count against it. */
  holds: boolean
}

type Found = Pick<Check, 'outcome' | 'words'> & Partial<Pick<Check, 'values'>>

const TITLES: Record<CheckId, string> = {
  entry: 'The entry is about this call',
  digest: 'Its bytes have the hash on the receipt',
  path: 'The hash leads to the root in the head',
  head: 'The head is one of this log',
  signature: 'The log’s key signed that head',
  payloads: 'What you see is what the entry commits to',
}

const NEEDED: readonly CheckId[] = ['entry', 'digest', 'path', 'head', 'signature']

export async function verify(evidence: Evidence, shown: ShownCall): Promise<Verification> {
  const { proof, head, why } = read(evidence.proof)
  const unread = (): Found => ({ outcome: 'broken', words: `The proof cannot be read: ${why}.` })
  const leaf = await leafHash(bytesOf(evidence.entry))
  const root = proof && head ? await rootOf(leaf, proof, head) : undefined
  const found: Record<CheckId, Found> = {
    entry: ofThisCall(evidence.entry, shown),
    digest: digest(leaf, evidence.receipt),
    path: proof && head ? path(proof, head, root, evidence.receipt) : unread(),
    head: head ? origin(head, evidence.receipt) : unread(),
    signature: proof && head ? await signature(proof, head, evidence.keys) : unread(),
    payloads: await payloads(evidence, shown),
  }
  const checks = Object.entries(found).map(([id, one]) => {
    const known = id as CheckId
    return { id: known, title: TITLES[known], values: [], ...one }
  })
  const broken = checks.find(({ outcome }) => outcome === 'broken')
  const holds = !broken && NEEDED.every((id) => found[id].outcome === 'holds')
  return { checks, broken, holds }
}

function read(text: string): { proof?: ProofText; head?: Head; why?: string } {
  try {
    const proof = readProof(text)
    return { proof, head: readHead(proof.head) }
  } catch (error) {
    if (error instanceof Unreadable) return { why: error.message }
    throw error
  }
}

interface Entry {
  id?: unknown
  details?: { call?: unknown; status?: unknown; input?: unknown; output?: unknown; error?: unknown }
}

function parsed(text: string): Entry | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

function ofThisCall(text: string, shown: ShownCall): Found {
  const entry = parsed(text)
  if (!entry) return { outcome: 'broken', words: 'The entry is not JSON.' }
  if (canonical(entry) !== text)
    return { outcome: 'broken', words: 'The entry is not written in its one canonical way.' }
  if (entry.id !== shown.id || entry.details?.call !== shown.id) {
    return {
      outcome: 'broken',
      words: 'The entry is about another call.',
      values: [{ label: 'entry of', value: String(entry.details?.call) }],
    }
  }
  const { status } = entry.details
  if (status === 'outcome_unknown' && shown.status !== status) {
    return {
      outcome: 'holds',
      words: 'It recorded that nobody knew the outcome; how it was settled is an entry of its own.',
    }
  }
  if (status !== shown.status) {
    return { outcome: 'broken', words: `The entry says ${String(status)}, the page ${shown.status}.` }
  }
  return {
    outcome: 'holds',
    words: `It says that the call ${status === 'completed' ? 'completed' : `ended as ${String(status)}`}.`,
  }
}

function digest(leaf: Uint8Array, receipt: Evidence['receipt']): Found {
  const values = [
    { label: 'computed', value: hex(leaf) },
    { label: 'receipt', value: receipt.entry_digest },
  ]
  if (hex(leaf) !== receipt.entry_digest) {
    return { outcome: 'broken', words: 'These are not the bytes that the receipt was given for.', values }
  }
  return { outcome: 'holds', words: 'SHA-256 over a zero byte and the entry’s exact text.', values }
}

async function rootOf(leaf: Uint8Array, proof: ProofText, head: Head): Promise<Uint8Array | undefined> {
  const climbed = await climb(leaf, proof.index, head.size, proof.path)
  return climbed && (climbed.at(-1)?.hash ?? leaf)
}

function path(proof: ProofText, head: Head, root: Uint8Array | undefined, receipt: Evidence['receipt']): Found {
  if (typeof receipt.index === 'number' && BigInt(receipt.index) !== proof.index) {
    return { outcome: 'broken', words: `The receipt is for entry ${receipt.index}, the proof for ${proof.index}.` }
  }
  if (!root) {
    return { outcome: 'broken', words: `No tree of ${head.size} entries has such a path from entry ${proof.index}.` }
  }
  const values = [
    { label: 'computed', value: hex(root) },
    { label: 'head', value: hex(head.root) },
  ]
  const steps = `${proof.path.length} ${proof.path.length === 1 ? 'hash' : 'hashes'} from entry ${proof.index} of ${head.size}`
  if (hex(root) !== hex(head.root)) return { outcome: 'broken', words: `${steps} lead to another root.`, values }
  return { outcome: 'holds', words: `${steps} up to the root.`, values }
}

function origin(head: Head, receipt: Evidence['receipt']): Found {
  const values = [
    { label: 'head', value: head.log },
    { label: 'receipt', value: receipt.log },
  ]
  if (head.log !== receipt.log) return { outcome: 'broken', words: 'The head is of another log.', values }
  return { outcome: 'holds', words: `It covers ${head.size} entries.`, values }
}

async function signature(proof: ProofText, head: Head, keys: readonly string[]): Promise<Found> {
  const known = await believed(keys, head.log)
  const own = proof.signatures.flatMap((one) =>
    known.filter((key) => key.name === one.name && key.id === one.keyId).map((key) => ({ key, bytes: one.bytes })),
  )
  // A bad signature by a known key spoils the head, as one by nobody we know does.
  if (own.length === 0) return { outcome: 'broken', words: 'No key of this log signed the head.' }
  for (const { key, bytes } of own) {
    const values = [{ label: 'key', value: `${key.name}+${key.id}` }]
    const fits = await signedBy(key, bytes, proof.head)
    if (fits === undefined) {
      const words = 'This browser cannot check Ed25519 signatures. `toolgate audit verify` can.'
      return { outcome: 'skipped', words, values }
    }
    if (!fits) return { outcome: 'broken', words: 'The signature does not fit the head.', values }
  }
  return {
    outcome: 'holds',
    words: 'Ed25519, with the key that this server names. Compare it with the one you kept.',
    values: own.map(({ key }) => ({ label: 'key', value: `${key.name}+${key.id}` })),
  }
}

/** The keys that may speak for the log, each under the id that is computed from it. */
async function believed(keys: readonly string[], log: string): Promise<VerifierKey[]> {
  const known: VerifierKey[] = []
  for (const text of keys) {
    let key: VerifierKey
    try {
      key = readKey(text)
    } catch (error) {
      if (error instanceof Unreadable) continue
      throw error
    }
    const named = await sha256(bytesOf(key.name), bytesOf('\n'), Uint8Array.of(key.kind), key.publicKey)
    if (isLogKey(key) && key.name === log && hex(named.subarray(0, 4)) === key.id) known.push(key)
  }
  return known
}

async function signedBy(key: VerifierKey, bytes: Uint8Array<ArrayBuffer>, text: string): Promise<boolean | undefined> {
  let imported: CryptoKey
  try {
    imported = await crypto.subtle.importKey('raw', key.publicKey, { name: 'Ed25519' }, false, ['verify'])
  } catch (error) {
    if (error instanceof DOMException && error.name === 'NotSupportedError') return undefined
    return false
  }
  return crypto.subtle.verify({ name: 'Ed25519' }, imported, bytes, bytesOf(text))
}

function rewritten(text: string): string | undefined {
  try {
    return canonical(JSON.parse(text))
  } catch {
    return undefined
  }
}

const PAYLOADS = ['input', 'output', 'error'] as const

async function payloads(evidence: Evidence, shown: ShownCall): Promise<Found> {
  const entry = parsed(evidence.entry)
  const { payload } = evidence
  if (!payload && PAYLOADS.some((which) => shown[which] !== undefined && shown[which] !== null))
    return { outcome: 'broken', words: 'The page shows what the server says was erased.' }
  if (!payload)
    return {
      outcome: 'skipped',
      words: 'Arguments and result were erased, and with them the salt. The log stays true.',
    }
  const settled = entry?.details?.status === 'outcome_unknown'
  let salt: CryptoKey
  try {
    salt = await crypto.subtle.importKey('raw', base64(payload.salt), { name: 'HMAC', hash: 'SHA-256' }, false, [
      'sign',
    ])
  } catch {
    return { outcome: 'broken', words: 'The salt cannot be read.' }
  }
  const values: { label: string; value: string }[] = []
  const held: string[] = []
  for (const what of PAYLOADS) {
    const commitment = entry?.details?.[what]
    const text = payload[what] ?? undefined
    const value = shown[what] ?? undefined
    // What was settled later belongs to a later entry.
    if (settled && what !== 'input') continue
    if (commitment === undefined) {
      if (value !== undefined)
        return { outcome: 'broken', words: `The page shows an ${what}, and the entry knows of none.`, values }
      continue
    }
    if (text === undefined)
      return { outcome: 'broken', words: `The entry commits to an ${what} that was not given.`, values }
    const mac = new Uint8Array(await crypto.subtle.sign('HMAC', salt, bytesOf(`${what}\n${text}`)))
    values.push({ label: what, value: hex(mac) })
    if (hex(mac) !== commitment) {
      return { outcome: 'broken', words: `The ${what} is not the one that the entry commits to.`, values }
    }
    // The same value, in whatever order the text has its members.
    if (canonical(value) !== rewritten(text)) {
      return { outcome: 'broken', words: `The page shows another ${what} than the one in the log.`, values }
    }
    held.push(what)
  }
  return { outcome: 'holds', words: `HMAC-SHA256 under the call’s own salt: ${held.join(' and ')}.`, values }
}
