// The plain facts of a call: who, when, in which run, at what cost.
import { Link } from '@tanstack/react-router'
import { useNames } from '../../app/names'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { CopyId } from '../../ui/CopyId'
import { Fact } from '../../ui/Facts'
import { Time } from '../../ui/Time'
import css from './Call.module.css'
import type { Call } from './queries'

export function Facts({ call }: { call: Call }) {
  const nameOf = useNames()
  const isLone = call.run_id === call.id
  return (
    <dl className={css.facts}>
      <Fact name="Call">
        <CopyId id={call.id} what="call id" />
      </Fact>
      <Fact name="Id in its run">
        <CopyId id={call.call_id} what="call id" />
      </Fact>
      <Fact name="By">
        <span title={call.principal}>{revealed(call.principal_name ?? nameOf(call.principal))}</span>
        {call.agent_name && (
          <>
            {' as agent '}
            <Link {...to.agent(call.agent_name)}>{revealed(call.agent_name)}</Link>
          </>
        )}
        {!call.agent_name && call.agent_id && <> as agent {<CopyId id={call.agent_id} short what="agent id" />}</>}
        <span className={css.quiet}> from {call.source}</span>
      </Fact>
      <Fact name="Asked">
        <Time at={call.created_at} />
      </Fact>
      {!isLone && (
        <Fact name="Run">
          <Link {...to.run(call.run_id)}>…{call.run_id.slice(-8)}</Link>
          <span className={css.quiet}>
            {' '}
            call {call.seq + 1}
            {call.step_title && <> of step “{revealed(call.step_title)}”</>}
          </span>
        </Fact>
      )}
      <Fact name="Attempts">{call.attempts === 0 ? 'none' : call.attempts}</Fact>
      <Cost call={call} />
      {call.labels && call.labels.length > 0 && (
        <Fact name="Labels">
          {call.labels.join(', ')}
          <Origins decision={call.decision} />
        </Fact>
      )}
      <Secrets secrets={call.secrets} />
      {call.metadata && (
        <Fact name="Metadata">
          <code>{revealed(JSON.stringify(call.metadata))}</code>
        </Fact>
      )}
      {call.usage && (
        <Fact name="Usage">
          <code>{revealed(JSON.stringify(call.usage))}</code>
        </Fact>
      )}
      {call.cancel_requested_by && <Fact name="Stop asked by">{revealed(nameOf(call.cancel_requested_by))}</Fact>}
      <Fact name="Definition">
        <CopyId id={call.definition_digest} short what="digest of the definition" />
      </Fact>
    </dl>
  )
}

function Cost({ call }: { call: Call }) {
  const parts = [
    [call.cost, 'counted'],
    [call.cost_estimate, 'estimated'],
    [call.reported_cost, 'reported by the caller'],
  ].filter(([amount]) => amount)
  return (
    <Fact name="Cost">
      {parts.length === 0 ? 'none' : parts.map(([amount, word]) => `${amount} ${word}`).join(', ')}
    </Fact>
  )
}

function Origins({ decision }: { decision: unknown }) {
  const { origins } = decision as { origins?: { names?: string[]; others?: boolean } }
  const names = [...(origins?.names ?? []), ...(origins?.others ? ['others'] : [])]
  return names.length > 0 ? <span className={css.quiet}> from {revealed(names.join(', '))}</span> : null
}

function Secrets({ secrets }: { secrets: unknown }) {
  if (!Array.isArray(secrets) || secrets.length === 0) return null
  const given = secrets as { name?: string; scope?: string; version?: number }[]
  return (
    <Fact name="Secrets">
      {given.map(({ name, scope, version }) => (
        <span key={name} className={css.secret}>
          <code>{revealed(name ?? '')}</code>{' '}
          <span className={css.quiet}>
            of the {scope}, version {version}
          </span>
        </span>
      ))}
    </Fact>
  )
}
