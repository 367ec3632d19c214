// A live list that stays where it is: what is shown changes in place, what is new waits until it is asked for.
import { useState } from 'react'

export function useHeld<Row extends { id: string }>(all: readonly Row[] | undefined) {
  const [top, setTop] = useState<string>()
  const newest = all?.[0]?.id
  // The first answer is what the person came for.
  if (top === undefined && newest !== undefined) setTop(newest)
  const fresh = all && top !== undefined ? freshCount(all, top) : 0
  return { rows: (all ?? []).slice(fresh), fresh, take: () => setTop(newest) }
}

/** How many stand above `top`; none if it is no longer in the list, for then there is nothing to hold on to. */
export function freshCount(all: readonly { id: string }[], top: string): number {
  return Math.max(
    0,
    all.findIndex(({ id }) => id === top),
  )
}
