// Which calls came since the list was read, and how known ones stand now. Ids are ordered by time.
import type { LiveEvent } from '../../api/live'
import type { CallRow } from './queries'

export interface Fresh<Row> {
  /** How many rows wait above the first one shown. */
  count: number
  /** There are at least so many: the newest page ended before the first known row. */
  isMore: boolean
  /** Known rows as they are now, by id. */
  changed: ReadonlyMap<string, Row>
}

export function freshOf<Row extends { id: string }>(
  newest: readonly Row[] | undefined,
  known: readonly Row[],
): Fresh<Row> {
  const first = known[0]?.id
  if (!newest) return { count: 0, isMore: false, changed: new Map() }
  const waiting = newest.filter(({ id }) => first === undefined || id > first)
  const changed = new Map(newest.filter(({ id }) => first !== undefined && id <= first).map((row) => [row.id, row]))
  return { count: waiting.length, isMore: waiting.length > 0 && waiting.length === newest.length, changed }
}

/** The status that an event tells, where it tells one. */
export function statusOf({ type, data }: Pick<LiveEvent, 'type' | 'data'>): CallRow['status'] | undefined {
  if (type === 'tool.started') return 'running'
  if (type === 'tool.completed') return 'completed'
  if (type === 'tool.cancelled') return 'cancelled'
  if (type !== 'tool.failed') return undefined
  const told = (data as { status?: unknown } | undefined)?.status
  return told === 'rejected' || told === 'outcome_unknown' ? told : 'failed'
}

/** A status never goes back: an event that was late is passed over. */
const ORDER: readonly CallRow['status'][] = ['pending', 'approved', 'running']

export function withChanges(
  rows: readonly CallRow[],
  changed: ReadonlyMap<string, CallRow>,
  told: ReadonlyMap<string, CallRow['status']>,
): readonly CallRow[] {
  if (changed.size === 0 && told.size === 0) return rows
  return rows.map((row) => {
    const now = changed.get(row.id) ?? row
    const status = told.get(row.id)
    const place = ORDER.indexOf(now.status)
    if (status === undefined || place < 0) return now
    const next = ORDER.indexOf(status)
    return next < 0 || next > place ? { ...now, status } : now
  })
}
