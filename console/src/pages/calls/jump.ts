// Where in the list a day is. The list is newest first and read page by page, so a day far back is read up to.

import { dayAfter } from './chosen'
import type { CallRow } from './queries'

/** Further than this nobody waits for; the filter `until` is there in one question. */
export const JUMP_ROWS_MAX = 20_000

export type Jump =
  | { kind: 'there'; index: number }
  /** All were read, and the oldest is newer. */
  | { kind: 'before'; index: number }
  | { kind: 'read on' }
  | { kind: 'far' }

/** What to do next to come to the newest call of `day`, or of the days before it. */
export function jumpTo(
  day: string,
  rows: readonly Pick<CallRow, 'created_at'>[],
  isMore: boolean,
  rowsMax = JUMP_ROWS_MAX,
): Jump {
  const end = Date.parse(`${dayAfter(day)}T00:00:00Z`)
  const index = rows.findIndex(({ created_at }) => Date.parse(created_at) < end)
  if (index !== -1) return { kind: 'there', index }
  if (!isMore) return { kind: 'before', index: rows.length - 1 }
  return { kind: rows.length < rowsMax ? 'read on' : 'far' }
}

/** While a year is typed, the field says 0002, 0020, 0202. */
export function isMeantDay(day: string): boolean {
  return /^(19|20|21)\d\d-\d\d-\d\d$/.test(day)
}
