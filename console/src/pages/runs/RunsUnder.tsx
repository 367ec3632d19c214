// The runs that a run began, and those that they began: agents that asked agents.
import { Link } from '@tanstack/react-router'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { to } from '../../paths'
import { RunBadge } from '../../ui/domain'
import { Section } from '../../ui/Section'
import { isEnded, type RunRow } from './queries'
import css from './RunsUnder.module.css'
import { type Twig, treeOf } from './tree'

export function RunsUnder({ root, runs }: { root: string; runs: readonly RunRow[] }) {
  if (runs.length === 0) return null
  return (
    <div className={css.under}>
      <Section title="Runs under it">
        <Twigs twigs={treeOf(root, runs)} />
      </Section>
    </div>
  )
}

function Twigs({ twigs }: { twigs: readonly Twig[] }) {
  return (
    <ul className={css.tree}>
      {twigs.map(({ run, under }) => (
        <li key={run.id}>
          <div className={css.run}>
            <Link {...to.run(run.id)}>{revealed(run.title ?? `Run …${run.id.slice(-8)}`)}</Link>
            <RunBadge state={run.state} />
            <span className={css.quiet}>
              {run.agent_name && <>{revealed(run.agent_name)}, </>}
              {run.calls_counted} {run.calls_counted === 1 ? 'call' : 'calls'}
              {isEnded(run.state) && `, ${duration(Date.parse(run.updated_at) - Date.parse(run.created_at))}`}
            </span>
          </div>
          {run.reason && <p className={css.quiet}>{revealed(run.reason)}</p>}
          {under.length > 0 && <Twigs twigs={under} />}
        </li>
      ))}
    </ul>
  )
}
