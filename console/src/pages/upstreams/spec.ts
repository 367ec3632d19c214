// What a person fills in about a server, and what the API takes: what the form does not ask for stays as it was.
import type { Schemas } from '../../api/client'
import type { Upstream } from './queries'

export type Way = 'http' | 'sse' | 'stdio'
export type Proof = 'none' | 'header' | 'oauth'

export interface Filled {
  name: string
  title: string
  way: Way
  url: string
  entry: string
  proof: Proof
  header: string
  scheme: string
  secret: string
  per: 'org' | 'user'
}

type Spec = Schemas['Upstream']

export function filledOf(upstream: Upstream | undefined): Filled {
  const transport = upstream?.transport
  const header = upstream?.headers?.find(({ secret }) => secret)
  const oauth = upstream?.auth?.oauth
  return {
    name: upstream?.name ?? '',
    title: upstream?.title ?? '',
    way: transport?.kind ?? 'http',
    url: transport && transport.kind !== 'stdio' ? transport.url : '',
    entry: transport?.kind === 'stdio' ? transport.entry : '',
    proof: oauth ? 'oauth' : header ? 'header' : 'none',
    header: header?.name ?? 'Authorization',
    scheme: header ? (header.scheme ?? '') : 'Bearer',
    secret: header?.secret ?? '',
    per: oauth?.per ?? 'org',
  }
}

/** Members that a server has and no form asks for are sent back as they were. */
const KEPT = ['version', 'era', 'environment', 'tools', 'unprefixed', 'asks', 'apart', 'accepts', 'timeout_ms'] as const

export function specOf(filled: Filled, before: Upstream | undefined): Spec {
  const { name, title, way, url, entry, proof, header, scheme, secret, per } = filled
  const isRemote = way !== 'stdio'
  const others = before?.headers?.filter((one) => !one.secret) ?? []
  const own = { name: header.trim(), secret: secret.trim(), ...(scheme.trim() === '' ? {} : { scheme: scheme.trim() }) }
  const kept = Object.fromEntries(
    KEPT.map((member) => [member, before?.[member]]).filter(([, value]) => value !== undefined && value !== null),
  )
  return {
    ...kept,
    name: name.trim(),
    ...(title.trim() === '' ? {} : { title: title.trim() }),
    transport: way === 'stdio' ? { kind: 'stdio', entry: entry.trim() } : { kind: way, url: url.trim() },
    ...(isRemote && (proof === 'header' || others.length > 0)
      ? { headers: proof === 'header' ? [...others, own] : others }
      : {}),
    ...(isRemote && proof === 'oauth' ? { auth: { oauth: { ...before?.auth?.oauth, per } } } : {}),
  } as Spec
}

/** Why it cannot be sent yet. */
export function missingIn({ name, way, url, entry, proof, header, secret }: Filled): string | undefined {
  if (name.trim() === '') return 'Give it a name first'
  if (way === 'stdio') return entry.trim() === '' ? 'Name the entry first' : undefined
  if (url.trim() === '') return 'Write its address first'
  if (proof === 'header' && (header.trim() === '' || secret.trim() === ''))
    return 'Name the header and the secret first'
  return undefined
}
