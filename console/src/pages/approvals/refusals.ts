// Why a button is off, in one place. The server is the judge; this says beforehand what is known here.
import { type Me, may } from '../../app/session'
import { type Card, endWords, isCritical, personName } from './card'

/** How this card has been looked at. */
export interface Look {
  /** It was just put in front of the person: a second click may have been meant for the one before. */
  fresh: boolean
  unseen: 'folded' | 'below' | undefined
  /** What the server said no to already, for this card. */
  refused: string | undefined
  sending: boolean
}

export const SEEN: Look = { fresh: false, unseen: undefined, refused: undefined, sending: false }

function decide(card: Card, me: Me, look: Look): string | undefined {
  if (look.sending) return 'It is being sent'
  if (card.state !== 'open') return endWords(card)
  const confirms = may(me, 'calls.confirm') && card.principal === me.principal && !card.agent_id
  if (!may(me, 'approvals.decide') && !confirms) return 'Deciding needs the role approver'
  if (look.fresh) return 'It has just come into view'
  return look.refused
}

function voted(card: Card, me: Me): string | undefined {
  const own = card.votes.find(({ voter, vote }) => voter === me.principal && vote === 'approve')
  if (!own || card.need < 2) return
  return `You have approved it: ${card.approved} of ${card.need}`
}

const UNSEEN = {
  folded: 'It is critical, and part of what will run is folded away: unfold it first',
  below: 'It is critical, and part of what will run has not been on the screen: scroll through it first',
}

function approve(card: Card, me: Me, look: Look): string | undefined {
  const off = decide(card, me, look) ?? voted(card, me)
  if (off) return off
  if (card.borrows && !may(me, card.borrows))
    return `Approving lends the permission ${card.borrows}, which you do not have`
  if (card.frozen_at) return 'A kill switch holds it: let it go on first'
  if (isCritical(card) && look.unseen) return UNSEEN[look.unseen]
  return
}

export const refusals = {
  approve,
  reject: decide,
  edit: (card: Card, me: Me, look: Look) => {
    if (card.state === 'open' && (card.input === null || card.input === undefined)) return 'Its arguments are not kept'
    return approve(card, me, look)
  },
  standing: (card: Card, me: Me, look: Look, criticalMayStand: boolean) => {
    const off = approve(card, me, look)
    if (off) return off
    if (!may(me, 'grants.standing')) return 'Allowing similar calls needs the role admin'
    if (card.borrows) return 'It borrows a permission: each call is decided by itself'
    if (isCritical(card) && !criticalMayStand) return 'It is critical: each call is decided by itself'
    if (card.labels.length > 0 && card.reasons.some(({ code }) => code === 'label')) {
      return 'A label rule asks, and no standing grant answers that'
    }
    return
  },
} satisfies Record<string, (card: Card, me: Me, look: Look, criticalMayStand: boolean) => string | undefined>

export const bulkRefusals = {
  approve: (cards: readonly Card[], me: Me) => {
    const off = bulk(cards, me)
    if (off) return off
    const tools = new Set(cards.map(({ tool }) => tool.split('@')[0]))
    if (tools.size > 1) return `They are of ${tools.size} tools: approve those of one tool at a time`
    const lent = cards.find(({ borrows }) => borrows && !may(me, borrows))
    if (lent) return `Approving lends the permission ${lent.borrows}, which you do not have`
    if (cards.some(isCritical)) return 'Critical calls are looked at one by one'
    const held = cards.find(({ frozen_at }) => frozen_at)
    return held && 'A kill switch holds one of them'
  },
  reject: bulk,
} satisfies Record<string, (cards: readonly Card[], me: Me) => string | undefined>

function bulk(cards: readonly Card[], me: Me): string | undefined {
  if (cards.length === 0) return 'Nothing is chosen'
  if (cards.length > 100) return 'At most 100 at once'
  if (!may(me, 'approvals.decide')) return 'Deciding needs the role approver'
  const decided = cards.find(({ state }) => state !== 'open')
  return decided && `One is ${decided.state} already, by ${personName(decided.decided_by_name, decided.decided_by)}`
}
