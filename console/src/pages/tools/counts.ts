// How many tools each choice of a filter would leave, counted over the tools that are there.
import type { Chosen, ToolRow } from './queries'

/** Those choices that narrow a list down; the others ask for another list. */
export const NARROWING = ['category', 'risk', 'class', 'kind', 'origin'] as const
export type Narrowing = (typeof NARROWING)[number]

/** What a tool is under each of them. A category stands for all that it lies in. */
const IS: Record<Narrowing, (tool: ToolRow) => readonly string[]> = {
  category: ({ category }) => category.split('/').map((_, at, steps) => steps.slice(0, at + 1).join('/')),
  risk: ({ risk }) => [risk],
  class: ({ egress_class }) => [egress_class],
  kind: ({ type }) => [type],
  origin: ({ origin }) => [origin],
}

export type Counts = Record<Narrowing, ReadonlyMap<string, number>>

/** Of each choice: with it, and with what is chosen of the other filters. */
export function countsOf(tools: readonly ToolRow[], chosen: Chosen): Counts {
  const keeps = (tool: ToolRow, filter: Narrowing) => !chosen[filter] || IS[filter](tool).includes(chosen[filter])
  const counted = (filter: Narrowing) => {
    const counts = new Map<string, number>()
    for (const tool of tools) {
      if (!NARROWING.every((other) => other === filter || keeps(tool, other))) continue
      for (const one of IS[filter](tool)) counts.set(one, (counts.get(one) ?? 0) + 1)
    }
    return counts
  }
  return {
    category: counted('category'),
    risk: counted('risk'),
    class: counted('class'),
    kind: counted('kind'),
    origin: counted('origin'),
  }
}

/** The list that the choices narrow down. */
export function widest(chosen: Chosen): Chosen {
  const { category: _, risk: __, class: ___, kind: ____, origin: _____, ...rest } = chosen
  return Object.fromEntries(Object.entries(rest).filter(([, value]) => value))
}
