// A list that does not move under the pointer: what is new waits behind a bar, what is gone keeps its row.
import { useState } from 'react'

export interface Steady<Row> {
  rows: readonly Row[]
  /** In the list by now, not shown yet. */
  news: number
  /** Shown, and no longer in the list. */
  gone: ReadonlySet<string>
  /** Takes the list as it is now. */
  catchUp: () => void
}

export interface Arranged<Row> {
  rows: readonly Row[]
  news: number
  gone: ReadonlySet<string>
}

export function arrange<Row extends { id: string }>(
  shown: readonly Row[],
  fresh: readonly Row[],
  isMore: (row: Row) => boolean,
): Arranged<Row> {
  const byId = new Map(fresh.map((row) => [row.id, row]))
  const known = new Set(shown.map(({ id }) => id))
  const unknown = fresh.filter(({ id }) => !known.has(id))
  // With nothing on the screen nothing can move; what was asked for by hand may come too.
  if (shown.length === 0) return { rows: fresh, news: 0, gone: new Set() }
  const asked = unknown.filter(isMore)
  return {
    rows: [...shown.map((row) => byId.get(row.id) ?? row), ...asked],
    news: unknown.length - asked.length,
    gone: new Set(shown.filter(({ id }) => !byId.has(id)).map(({ id }) => id)),
  }
}

/** `of` names the list: another filter is another list. `pages` grows when somebody asks for more. */
export function useSteady<Row extends { id: string }>(
  fresh: readonly Row[] | undefined,
  of: string,
  pages: number,
): Steady<Row> {
  const [state, setState] = useState<{ of: string; pages: number; shown: readonly Row[] }>({ of, pages, shown: [] })
  const isSame = state.of === of
  const grew = isSame && pages > state.pages
  const arranged = arrange(isSame ? state.shown : [], fresh ?? [], () => grew)
  // Rows keep what was last known of them, so that one that is gone can still be read.
  if (fresh && (!isSame || grew || !sameRows(state.shown, arranged.rows))) {
    setState({ of, pages, shown: arranged.rows })
  }
  return { ...arranged, catchUp: () => setState({ of, pages, shown: fresh ?? [] }) }
}

function sameRows<Row>(left: readonly Row[], right: readonly Row[]): boolean {
  return left.length === right.length && left.every((row, index) => row === right[index])
}
