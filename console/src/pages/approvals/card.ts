// What a card says, in words; everything on it is from the stored call.
import type { Schemas } from '../../api/client'

/** What is JSON of any kind is called an object in the API's description. */
export type Card = Omit<
  Schemas['Card'],
  'approvers' | 'secrets' | 'input' | 'proposed_input' | 'earlier' | 'preview'
> & {
  approvers: readonly unknown[]
  secrets?: unknown
  input?: unknown
  proposed_input?: unknown
  earlier?: Earlier | null
  preview?: Preview | null
}

/** What it would do, as it was worked out when people were asked. */
export type Preview = Omit<Schemas['CardPreview'], 'plan'> & { plan?: unknown }

export type Earlier = Omit<Schemas['Earlier'], 'input'> & { input?: unknown }

export function isCritical({ risk, reasons }: Pick<Card, 'risk' | 'reasons'>): boolean {
  return risk === 'critical' || reasons.some(({ code }) => code === 'critical')
}

/** `write_file@1.0.0` is `write_file` and `1.0.0`. */
export function toolOf({ tool }: Pick<Card, 'tool'>): { name: string; version: string } {
  const at = tool.lastIndexOf('@')
  return at < 0 ? { name: tool, version: '' } : { name: tool.slice(0, at), version: tool.slice(at + 1) }
}

const SYSTEM: Record<string, string> = {
  'system:timeout': 'nobody: its time ran out',
  'system:expiry': 'nobody: its time ran out',
}

/** Who somebody is: by name where there is one. */
export function personName(name: string | null | undefined, principal: string | null | undefined): string {
  if (name) return name
  if (!principal) return 'nobody'
  return SYSTEM[principal] ?? (principal.startsWith('system') ? 'the server' : principal)
}

export interface Demand {
  need: number
  from: readonly string[]
}

export function demandsOf({ approvers }: Pick<Card, 'approvers'>): Demand[] {
  return approvers.flatMap((one) => {
    if (typeof one !== 'object' || one === null) return []
    const { need, from } = one as { need?: unknown; from?: unknown }
    const names = Array.isArray(from) ? from.filter((word): word is string => typeof word === 'string') : []
    return [{ need: typeof need === 'number' ? need : 1, from: names }]
  })
}

export interface GivenSecret {
  name: string
  scope: string
  version: string
}

export function secretsOf({ secrets }: Pick<Card, 'secrets'>): GivenSecret[] {
  const listed = Array.isArray(secrets) ? secrets : []
  return listed.flatMap((one: unknown) => {
    if (typeof one !== 'object' || one === null) return []
    const { name, scope, version } = one as Record<string, unknown>
    return typeof name === 'string' ? [{ name, scope: String(scope ?? ''), version: String(version ?? '') }] : []
  })
}

export interface TimeLeft {
  ms: number
  frozen: boolean
}

/** Of its deadline; it stands still while a kill switch holds it. */
export function timeLeft({ expires_at, frozen_at }: Pick<Card, 'expires_at' | 'frozen_at'>, now: number): TimeLeft {
  const from = frozen_at ? Date.parse(frozen_at) : now
  return { ms: Math.max(0, Date.parse(expires_at) - from), frozen: Boolean(frozen_at) }
}

/** `23 h 59 min`, `4 min 12 s`, `9 s` */
export function leftWords(ms: number): string {
  const seconds = Math.ceil(ms / 1_000)
  const [days, hours, minutes] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3_600), Math.floor(seconds / 60)]
  if (days >= 2) return `${days} days ${hours % 24} h`
  if (hours > 0) return `${hours} h ${minutes % 60} min`
  if (minutes > 0) return `${minutes} min ${seconds % 60} s`
  return `${seconds} s`
}

const MODES: Record<string, string> = {
  blocking: 'The caller waits. When its time is over it is rejected.',
  continue_on_timeout: 'When its time is over it runs by itself.',
  fire_and_continue: 'The caller has gone on.',
}

/** What happens when nobody decides. */
export function modeWords({ mode, person_required }: Pick<Card, 'mode' | 'person_required'>): string {
  if (!person_required) return MODES[mode] ?? mode
  if (mode === 'continue_on_timeout') return 'When its time is over it expires, and the caller goes on without it.'
  if (mode === 'fire_and_continue') return 'The caller has gone on; it runs only if somebody approves.'
  return MODES.blocking ?? mode
}

/** Whose call another one is compared with, seen from this one: whether it says what is usual. */
export function earlierWords({ agent, asked_by }: Pick<Card, 'agent' | 'asked_by'>, earlier: Earlier): string {
  const who = personName(earlier.principal_name, earlier.principal)
  const via = earlier.agent ? `${earlier.agent} for ${who}` : who
  if (earlier.same_caller) return `of the same caller, ${agent ? `${agent} for ${asked_by}` : asked_by}`
  return `of another caller, ${via}`
}

/** How it ended, for who comes too late: `Approved by ann`, and `by you` for who did it. */
export function endWords(card: Card, me?: string): string {
  const by = me !== undefined && card.decided_by === me ? 'you' : personName(card.decided_by_name, card.decided_by)
  if (card.state === 'approved') return by.startsWith('nobody') ? 'Ran because its time was over' : `Approved by ${by}`
  if (card.state === 'rejected') return `Rejected by ${by}`
  if (card.state === 'expired') return 'Expired: nobody decided in time'
  if (card.state === 'cancelled') return 'Cancelled: the caller no longer waits for it'
  return 'Waits'
}
