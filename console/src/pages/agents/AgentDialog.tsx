// Makes or changes an agent.
import { useInfiniteQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useNames } from '../../app/names'
import { useMe } from '../../app/session'
import type { JsonSchema } from '../../form/json'
import { revealed } from '../../lib/hidden'
import css from './agents.module.css'
import { type Agent, profilesQuery, type replaceAgent } from './queries'
import { SpecDialog } from './SpecDialog'
import { agentForm } from './specForm'

type Spec = Parameters<typeof replaceAgent>[0]

export function AgentDialog({
  agent,
  save,
  onClose,
}: {
  /** Nothing: a new one. */
  agent?: Agent
  save: (spec: Spec) => Promise<unknown>
  onClose: () => void
}) {
  const me = useMe()
  const nameOf = useNames()
  const pages = useInfiniteQuery(profilesQuery()).data?.pages
  const shaped = useMemo(() => {
    const names = pages?.flatMap(({ items }) => items).map(({ name }) => name) ?? []
    // One schema as long as nothing changes: the form keeps what it made of it.
    const made = new WeakMap<object, JsonSchema>()
    return (schema: JsonSchema) => {
      if (typeof schema !== 'object') return schema
      const known = made.get(schema) ?? agentForm(schema, names)
      made.set(schema, known)
      return known
    }
  }, [pages])
  const owner = agent ? agent.owner && nameOf(agent.owner) : me.name
  return (
    <SpecDialog
      title={agent ? `Edit ${agent.name}` : 'New agent'}
      component="AgentSpec"
      shaped={shaped}
      about={
        owner && (
          <p className={css.quiet}>
            Owner: {revealed(owner)}
            {agent ? '.' : ', since you make it. Whoever owns an agent is answerable for what it calls.'}
          </p>
        )
      }
      {...(agent ? { value: specOf(agent) } : {})}
      save={save}
      onClose={onClose}
    />
  )
}

/** What of an agent can be written: the rest the server says by itself. */
function specOf(agent: Agent): Spec {
  const { id: _id, owner: _owner, effective_limits: _limits, state: _state, revision: _revision, ...spec } = agent
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== null)) as typeof spec
}
