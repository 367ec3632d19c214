// The texts a proof is made of, read as strictly as they are written: each has exactly one spelling, so that no changed
// byte goes unnoticed. C2SP tlog-proof, signed note, checkpoint and verifier key; canonical JSON as RFC 8785 has it.

/** A text that is not what it should be; the words say in what way. */
export class Unreadable extends Error {}

const HEADER = 'c2sp.org/tlog-proof@v1'
const DASH = '— '
const PATH_NODES_MAX = 63
const SIZE_MAX = 2n ** 63n - 1n
const HASH_BYTES = 32
const KEY_ID_BYTES = 4
// Of the two kinds of key in use only the log's own can sign its heads.
const LOG_KEY_KIND = 1

export interface Signature {
  name: string
  keyId: string
  bytes: Uint8Array<ArrayBuffer>
}

export interface ProofText {
  index: bigint
  path: Uint8Array<ArrayBuffer>[]
  /** What was signed: the head, with its last line end. */
  head: string
  signatures: Signature[]
}

export interface Head {
  log: string
  size: bigint
  root: Uint8Array<ArrayBuffer>
}

export interface VerifierKey {
  name: string
  id: string
  kind: number
  publicKey: Uint8Array<ArrayBuffer>
}

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text)
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export function base64(text: string): Uint8Array<ArrayBuffer> {
  let binary: string
  try {
    binary = atob(text)
  } catch {
    throw new Unreadable('it holds what is not base64')
  }
  // `atob` forgives spaces, missing padding and stray bits; the log does not.
  if (btoa(binary) !== text) throw new Unreadable('it holds base64 in a second spelling')
  return Uint8Array.from(binary, (character) => character.charCodeAt(0))
}

function hash(line: string | undefined, what: string): Uint8Array<ArrayBuffer> {
  const bytes = base64(line ?? '')
  if (bytes.length !== HASH_BYTES) throw new Unreadable(`${what} is not a hash`)
  return bytes
}

function decimal(text: string, what: string): bigint {
  if (!/^(0|[1-9][0-9]*)$/.test(text)) throw new Unreadable(`${what} is not a number`)
  const number = BigInt(text)
  if (number > SIZE_MAX) throw new Unreadable(`${what} is too large`)
  return number
}

/** The border between two parts is an empty line; between them is what `split` cannot say twice. */
function halves(text: string, at: number, words: string): [string, string] {
  if (at < 0) throw new Unreadable(words)
  return [text.slice(0, at), text.slice(at + 2)]
}

export function readProof(text: string): ProofText {
  const [top, note] = halves(text, text.indexOf('\n\n'), 'the proof has no empty line')
  const [header, indexLine = '', ...path] = top.split('\n')
  if (header !== HEADER) throw new Unreadable(`its first line is not ${HEADER}`)
  if (!indexLine.startsWith('index ')) throw new Unreadable('the proof has no index')
  if (path.length > PATH_NODES_MAX) throw new Unreadable('its path is too long')
  return {
    index: decimal(indexLine.slice('index '.length), 'the index'),
    path: path.map((line) => hash(line, 'a line of its path')),
    ...readNote(note),
  }
}

function readNote(note: string): Pick<ProofText, 'head' | 'signatures'> {
  const [head, lines] = halves(note, note.lastIndexOf('\n\n'), 'the head has no signatures')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  if (/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(note)) throw new Unreadable('the head holds a control character')
  if (!lines.endsWith('\n')) throw new Unreadable('the head does not end with a line end')
  return { head: `${head}\n`, signatures: lines.slice(0, -1).split('\n').map(readSignature) }
}

function readSignature(line: string): Signature {
  const [name = '', encoded = '', ...more] = line.slice(DASH.length).split(' ')
  if (!line.startsWith(DASH) || more.length > 0) throw new Unreadable('a signature line is not one')
  const bytes = base64(encoded)
  if (name === '' || bytes.length <= KEY_ID_BYTES) throw new Unreadable('a signature line is not one')
  return { name, keyId: hex(bytes.subarray(0, KEY_ID_BYTES)), bytes: bytes.slice(KEY_ID_BYTES) }
}

export function readHead(text: string): Head {
  const [log = '', size = '', root, ...more] = text.slice(0, -1).split('\n')
  if (log === '') throw new Unreadable('the head names no log')
  if (more.includes('')) throw new Unreadable('the head has an empty line')
  return { log, size: decimal(size, "the head's size"), root: hash(root, "the head's root") }
}

/** `NAME+ID+BASE64`; whether the id fits is for whoever computes it. */
export function readKey(text: string): VerifierKey {
  const [name = '', id = '', ...rest] = text.split('+')
  // Base64 may hold a plus itself.
  const bytes = base64(rest.join('+'))
  if (name === '' || !/^[0-9a-f]{8}$/.test(id) || bytes.length !== HASH_BYTES + 1) {
    throw new Unreadable('the key is not NAME+ID+BASE64')
  }
  return { name, id, kind: bytes[0] ?? 0, publicKey: bytes.slice(1) }
}

export function isLogKey(key: VerifierKey): boolean {
  return key.kind === LOG_KEY_KIND
}
