// The columns of calls, wherever calls are listed.
import type { ReactNode } from 'react'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { AnswerBadge, CallBadge } from '../../ui/domain'
import type { Column } from '../../ui/Table'
import { Time } from '../../ui/Time'
import css from './CallsPage.module.css'
import type { CallRow } from './queries'

const COLUMNS: readonly Column<CallRow>[] = [
  { id: 'tool', label: 'Tool', width: 'minmax(240px, 1fr)', phone: true, cell: (call) => <ToolName call={call} /> },
  { id: 'status', label: 'Status', width: '136px', phone: true, cell: status },
  { id: 'who', label: 'By', width: '144px', cell: who },
  {
    id: 'approval',
    label: 'Approval',
    width: '96px',
    word: 'approval',
    cell: ({ approval_status }) => asked(approval_status),
  },
  {
    id: 'source',
    label: 'From',
    width: '64px',
    word: 'from',
    cell: ({ source }) => <span className={css.quiet}>{source}</span>,
  },
  { id: 'took', label: 'Took', width: '68px', word: 'took', align: 'right', cell: took },
  { id: 'cost', label: 'Cost', width: '72px', word: 'cost', align: 'right', cell: ({ cost }) => cost ?? '' },
  {
    id: 'when',
    label: 'When',
    width: '84px',
    align: 'right',
    phone: true,
    cell: ({ created_at }) => <Time at={created_at} />,
  },
]

/** A column in which no call has anything is left out. */
export function columnsOf(calls: readonly CallRow[]): readonly Column<CallRow>[] {
  return calls.some(({ cost }) => cost) ? COLUMNS : COLUMNS.filter(({ id }) => id !== 'cost')
}

function status({ status: state, error_code }: CallRow): ReactNode {
  return <CallBadge status={state} error={error_code} />
}

function ToolName({ call }: { call: CallRow }) {
  return (
    <span className={css.tool}>
      <code>{revealed(call.tool_key)}</code>
      <span className={css.more}>{call.error_code ? <code>{call.error_code}</code> : note(call)}</span>
    </span>
  )
}

/** What tells this call from others of its tool, in a word or two. */
function note(call: CallRow): ReactNode {
  const marks = [
    call.mode === 'dry_run' ? 'dry run' : call.mode === 'record' ? 'recorded' : '',
    call.cached ? 'cached' : '',
  ]
  const words = marks.filter(Boolean).join(', ')
  return words || (call.step_title ? revealed(call.step_title) : revealed(call.tool_name))
}

function who({ agent_name, agent_id, principal_name, principal }: CallRow): ReactNode {
  const agent = agent_name ?? agent_id
  const person = principal_name ?? principal
  return (
    <span title={agent ? `${person} as agent ${agent}` : person}>
      {revealed(agent ?? person)}
      {agent && <span className={css.quiet}> agent</span>}
    </span>
  )
}

function asked(status: string): ReactNode {
  return status === 'not_required' ? <span className={css.quiet}>not asked</span> : <AnswerBadge status={status} />
}

export function took({ started_at, completed_at }: Pick<CallRow, 'started_at' | 'completed_at'>): string {
  return started_at && completed_at ? duration(Date.parse(completed_at) - Date.parse(started_at)) : ''
}
