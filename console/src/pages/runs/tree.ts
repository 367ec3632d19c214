// The runs under a run, each below the one that began it.
import type { RunRow } from './queries'

export interface Twig {
  run: RunRow
  under: readonly Twig[]
}

type Rows = readonly RunRow[]

/** Whose parent is not among them stands at the top: nothing is left out. */
export function treeOf(root: string, runs: Rows): readonly Twig[] {
  const known = new Set(runs.map(({ id }) => id))
  const parentOf = ({ parent_run_id }: RunRow) => (parent_run_id && known.has(parent_run_id) ? parent_run_id : root)
  const below = (parent: string, above: ReadonlySet<string>): readonly Twig[] =>
    runs
      .filter((run) => parentOf(run) === parent && !above.has(run.id))
      .sort((one, other) => (one.id < other.id ? -1 : 1))
      .map((run) => ({ run, under: below(run.id, new Set([...above, run.id])) }))
  return below(root, new Set([root]))
}
