// Which part of something tall has been on the screen: intervals of pixels from its top.
export type Interval = readonly [from: number, until: number]

// Half a pixel of rounding is not unseen.
const SLACK_PX = 2

export function seen(intervals: readonly Interval[], [from, until]: Interval): readonly Interval[] {
  if (until <= from) return intervals
  const joined = [...intervals, [from, until] as const].sort(([a], [b]) => a - b)
  const merged: Interval[] = []
  for (const [start, end] of joined) {
    const last = merged.at(-1)
    if (last && start <= last[1] + SLACK_PX) merged[merged.length - 1] = [last[0], Math.max(last[1], end)]
    else merged.push([start, end])
  }
  return merged
}

/** The first pixel that nobody has seen, or none. */
export function firstUnseen(intervals: readonly Interval[], height: number): number | undefined {
  const first = intervals[0]
  if (!first || first[0] > SLACK_PX) return 0
  return first[1] >= height - SLACK_PX ? undefined : first[1]
}

/** What is left after something opened at `at`: below it other things stand now. */
export function above(intervals: readonly Interval[], at: number): readonly Interval[] {
  return intervals.filter(([from]) => from < at).map(([from, until]) => [from, Math.min(until, at)] as const)
}
