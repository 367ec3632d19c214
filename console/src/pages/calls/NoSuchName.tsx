// A filter names a tool or an agent that is not there: no error, but a list without calls, and what may have been meant.
import { useQuery } from '@tanstack/react-query'
import { SearchX } from 'lucide-react'
import { ApiError } from '../../api/errors'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import { Empty } from '../../ui/Empty'
import css from './CallsPage.module.css'
import type { Chosen } from './chosen'
import { nearNames } from './near'
import { callQueries } from './queries'

export interface Unknown {
  filter: 'tool' | 'agent'
  name: string
}

/** What of the filters the server does not know, if that is why it refused. */
export function unknownName(error: unknown, chosen: Chosen): Unknown | undefined {
  if (!(error instanceof ApiError) || error.status !== 404) return undefined
  const filter = (['tool', 'agent'] as const).find((name) => error.problem?.pointer === `/${name}`)
  const name = filter && chosen[filter]
  return filter && name ? { filter, name } : undefined
}

export function NoSuchName({
  unknown: { filter, name },
  choose,
}: {
  unknown: Unknown
  choose: (change: Chosen) => void
}) {
  const me = useMe()
  const tools = useQuery(callQueries.toolNames()).data?.items ?? []
  const agents = useQuery(callQueries.agentNames(may(me, 'agents.read'))).data?.items ?? []
  const names = (filter === 'tool' ? tools : agents).map((one) => one.name)
  const near = nearNames(names, name)
  return (
    <Empty
      icon={<SearchX aria-hidden="true" />}
      title={
        <>
          No {filter} called <code>{revealed(name)}</code>
        </>
      }
    >
      <p>
        {near.length > 0
          ? 'Did you mean one of these?'
          : `There is none of that name here, or it is not given to you. Calls of ${filter}s that are gone are still in the list.`}
      </p>
      <p className={css.ways}>
        {near.map((one) => (
          <Button key={one} onPress={() => choose({ [filter]: one })}>
            <code>{one}</code>
          </Button>
        ))}
        <Button kind="quiet" onPress={() => choose({ [filter]: '' })}>
          Any {filter}
        </Button>
      </p>
    </Empty>
  )
}
