// What a run or the tenant tells as it happens, but for `model.delta` and `tool.output_appended`: these come too often for
// a list or a timeline, and whoever shows them listens for them by name.
import type { Schemas } from './client'

export const EVENT_TYPES = [
  'run.started',
  'run.waiting',
  'run.resumed',
  'run.completed',
  'run.failed',
  'run.cancelled',
  'model.requested',
  'model.completed',
  'model.failed',
  'tool.started',
  'tool.completed',
  'tool.failed',
  'tool.cancelled',
  'tool.needs_approval',
  'tool.approved',
  'approval.requested',
  'approval.decided',
  'approval.rejected',
  'approval.expired',
  'step.started',
  'step.completed',
  'step.failed',
  'input.requested',
  'input.submitted',
  'input.expired',
  'input.cancelled',
  'limit.reached',
] as const satisfies readonly Schemas['EventType'][]
