// The product's words as badges: the same state looks the same on every page.
import type { Schemas } from '../api/client'
import { isDenied } from '../lib/outcome'
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
/** A call that the gate refused did not fail: nothing ran. */
const DENIED: Look = ['bad', 'diamond', 'denied']
export const CallBadge = ({ status, error }: { status: string; error?: string | null | undefined }) =>
  shown(isDenied(status, error) ? DENIED : CALL[status as keyof typeof CALL], status)
export const CALL_STATUSES = Object.keys(CALL) as Schemas['Status'][]
export const RunBadge = ({ state }: { state: string }) => shown(RUN[state as keyof typeof RUN], state)
export const ApprovalBadge = ({ state }: { state: string }) => shown(APPROVAL[state as keyof typeof APPROVAL], state)

const ANSWER: Record<Schemas['ApprovalStatus'], Look> = {
  not_required: ['idle', 'none', 'not asked'],
  pending: APPROVAL.open,
  approved: APPROVAL.approved,
  rejected: APPROVAL.rejected,
}
/** How the question that a call asked stands; one that ended without an answer was decided by nobody. */
export const AnswerBadge = ({ status, isOver = false }: { status: string; isOver?: boolean }) =>
  shown(
    isOver && status === 'pending' ? ['idle', 'diamond', 'nobody decided'] : ANSWER[status as keyof typeof ANSWER],
    status,
  )
export const VoteBadge = ({ vote }: { vote: Schemas['Vote'] }) =>
  shown(vote === 'approve' ? APPROVAL.approved : APPROVAL.rejected, vote)

/** A tool's state, and whatever else keeps its calls from running. */
export const TOOL = {
  active: ['ok', 'dot', 'active'],
  deprecated: ['warn', 'ring', 'deprecated'],
  blocked: ['bad', 'diamond', 'blocked'],
  stopped: ['bad', 'diamond', 'stopped'],
  off: ['idle', 'diamond', 'switched off'],
  noRunner: ['warn', 'diamond', 'no runner here'],
  asks: ['info', 'ring', 'asks a person'],
} satisfies Record<string, Look>
export const ToolStateBadge = ({ state }: { state: Schemas['ToolState'] }) => shown(TOOL[state], state)
export const AsksBadge = () => shown(TOOL.asks, '')

const LABEL: Record<string, Look> = { untrusted: ['warn', 'diamond', 'untrusted'] }
/** What is known of the data a call carries. */
export const LabelBadge = ({ label }: { label: string }) => shown(LABEL[label] ?? ['egress', 'diamond', label], label)

/** How a call was made, where that is not the usual. */
const MANNER = {
  cached: ['idle', 'none', 'from the cache'],
  dry_run: ['info', 'ring', 'dry run'],
  recorded: ['info', 'ring', 'recorded'],
} satisfies Record<string, Look>
export const MannerBadge = ({ manner }: { manner: keyof typeof MANNER }) => shown(MANNER[manner], manner)

const options = (looks: Record<string, Look>) => Object.entries(looks).map(([id, [, , label]]) => ({ id, label }))
/** The same words, to choose from. */
export const RISK_OPTIONS = options(RISK)
export const CLASS_OPTIONS = options(CLASS)

/** Wherever a script speaks in place of a model. */
export const ScriptedBadge = () => (
  <Badge tone="warn" shape="ring" title="It plays a script: no model is asked.">
    scripted
  </Badge>
)

const NODE: Record<Schemas['NodeState'], Look> = {
  running: ['info', 'dot', 'running'],
  waiting: ['warn', 'ring', 'waits'],
  completed: ['ok', 'dot', 'completed'],
  failed: ['bad', 'diamond', 'failed'],
  skipped: ['idle', 'none', 'skipped'],
  cancelled: ['idle', 'ring', 'cancelled'],
}
export const NodeBadge = ({ state }: { state: Schemas['NodeState'] }) => shown(NODE[state], state)

const SEVERITY: Record<Schemas['Severity'], Look> = {
  error: ['bad', 'diamond', 'error'],
  warning: ['warn', 'ring', 'warning'],
  note: ['idle', 'none', 'note'],
}
export const SeverityBadge = ({ severity }: { severity: Schemas['Severity'] }) => shown(SEVERITY[severity], severity)
