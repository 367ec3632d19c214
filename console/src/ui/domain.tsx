// The product's words as badges: the same state looks the same on every page.
import type { Schemas } from '../api/client'
import { Badge, type Shape, type Tone } from './Badge'

type Look = readonly [tone: Tone, shape: Shape, words: string]

const RISK: Record<Schemas['Risk'], Look> = {
  safe: ['ok', 'dot', 'safe'],
  sensitive: ['warn', 'dot', 'sensitive'],
  critical: ['bad', 'diamond', 'critical'],
}

const CLASS: Record<Schemas['EgressClass'], Look> = {
  none: ['idle', 'ring', 'stays inside'],
  read_only: ['info', 'arrow', 'reads outside'],
  write: ['egress', 'arrow', 'changes things outside'],
}

const CALL: Record<Schemas['Status'], Look> = {
  pending: ['idle', 'ring', 'pending'],
  approved: ['info', 'ring', 'approved'],
  running: ['info', 'dot', 'running'],
  completed: ['ok', 'dot', 'completed'],
  failed: ['bad', 'diamond', 'failed'],
  rejected: ['bad', 'diamond', 'rejected'],
  cancelled: ['idle', 'diamond', 'cancelled'],
  outcome_unknown: ['warn', 'diamond', 'outcome unknown'],
}

const RUN: Record<Schemas['RunState'], Look> = {
  queued: ['idle', 'ring', 'queued'],
  running: ['info', 'dot', 'running'],
  waiting_human: ['warn', 'ring', 'waits for a person'],
  completed: ['ok', 'dot', 'completed'],
  failed: ['bad', 'diamond', 'failed'],
  cancelled: ['idle', 'diamond', 'cancelled'],
}

const APPROVAL: Record<Schemas['ApprovalState'], Look> = {
  open: ['warn', 'ring', 'waits'],
  approved: ['ok', 'dot', 'approved'],
  rejected: ['bad', 'diamond', 'rejected'],
  expired: ['idle', 'diamond', 'expired'],
  cancelled: ['idle', 'diamond', 'cancelled'],
}

function shown(look: Look | undefined, word: string) {
  const [tone, shape, words] = look ?? ['idle', 'none', word]
  return (
    <Badge tone={tone} shape={shape}>
      {words}
    </Badge>
  )
}

export const RiskBadge = ({ risk }: { risk: string }) => shown(RISK[risk as keyof typeof RISK], risk)
export const ClassBadge = ({ egressClass }: { egressClass: string }) =>
  shown(CLASS[egressClass as keyof typeof CLASS], egressClass)
export const CallBadge = ({ status }: { status: string }) => shown(CALL[status as keyof typeof CALL], status)
export const RunBadge = ({ state }: { state: string }) => shown(RUN[state as keyof typeof RUN], state)
export const ApprovalBadge = ({ state }: { state: string }) => shown(APPROVAL[state as keyof typeof APPROVAL], state)
