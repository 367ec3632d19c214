// How it stands with a server, in one word and in a sentence, what needs somebody first.
import type { Tone } from '../../ui/Badge'
import type { Upstream } from './queries'

export interface Standing {
  tone: Tone
  shape: 'dot' | 'diamond' | 'ring'
  words: string
  /** What to do about it; nothing where nothing is to be done. */
  about: string
}

type Told = Pick<Upstream, 'moved' | 'problem' | 'changes_offered' | 'tools_blocked'> & {
  health?: Pick<NonNullable<Upstream['health']>, 'resting' | 'failures_in_a_row' | 'last_error'> | null
}

export function standingOf({ moved, problem, changes_offered, tools_blocked, health }: Told): Standing {
  if (moved) {
    return {
      tone: 'bad',
      shape: 'diamond',
      words: 'moved',
      about:
        'It is elsewhere, or started otherwise, than when it was accepted. None of its tools is called until that is accepted.',
    }
  }
  if (problem) return { tone: 'bad', shape: 'diamond', words: 'cannot be read', about: problem }
  if (health?.resting || (health && health.failures_in_a_row > 0)) {
    return {
      tone: 'warn',
      shape: 'diamond',
      words: health.resting ? 'left alone for a while' : 'failing',
      about: health.last_error ?? `It failed ${health.failures_in_a_row} times in a row.`,
    }
  }
  if (changes_offered > 0) {
    return {
      tone: 'warn',
      shape: 'ring',
      words: `${changes_offered} ${changes_offered === 1 ? 'change' : 'changes'} offered`,
      about: 'Look at what changed, below, and accept or refuse it.',
    }
  }
  if (tools_blocked > 0) {
    return {
      tone: 'warn',
      shape: 'ring',
      words: `${tools_blocked} ${tools_blocked === 1 ? 'tool' : 'tools'} blocked`,
      about:
        'It no longer offers them, or offers something else by their names. They go on when it offers again what was accepted, or its change is accepted.',
    }
  }
  return { tone: 'ok', shape: 'dot', words: 'fine', about: '' }
}

/** Where it is, in words. */
export function whereOf({ transport }: Pick<Upstream, 'transport'>): string {
  return transport.kind === 'stdio' ? `the program ${transport.entry} of entries.yaml` : transport.url
}

/** Where a browser comes back to. A console on this computer takes it itself; else nobody listens, and the address is copied. */
export function redirectOf(origin: string): { redirect: string; comesBack: boolean } {
  const { protocol, hostname, port } = new URL(origin)
  const isHere = protocol === 'http:' && ['127.0.0.1', 'localhost', '[::1]'].includes(hostname) && port !== ''
  return isHere
    ? { redirect: `${origin}/callback`, comesBack: true }
    : { redirect: 'http://127.0.0.1:33418/callback', comesBack: false }
}
