// What will happen when Run is pressed, before it is: who is asked and why, which keys are used, what it reaches.
import { useQuery } from '@tanstack/react-query'
import { ArrowUpRight, CircleCheck, CircleHelp, KeyRound, OctagonX, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Schemas } from '../../../api/client'
import { sentence } from '../../../api/errors'
import { CopyLine } from '../../../ui/CopyLine'
import { Problem } from '../../../ui/Problem'
import { Prose } from '../../../ui/Prose'
import type { Tool } from '../definition'
import { toolQueries } from '../queries'
import { useWhyNotConfirm } from './confirming'
import css from './Run.module.css'

export function Before({ tool, reference }: { tool: Tool; reference: string }) {
  const whyNot = useWhyNotConfirm()
  const preflight = useQuery(toolQueries.preflight(reference))
  if (preflight.isError) return <Problem error={preflight.error} retry={() => void preflight.refetch()} />
  if (!preflight.data) return <div className={css.waitingFacts} role="status" aria-label="Asking what would happen" />
  const { reasons, asks, secrets } = preflight.data
  // The head of the page says already that it cannot run here at all.
  const refusals = reasons.filter(
    (reason) => !asks.includes(reason) && !ofSecret(reason, secrets) && reason !== tool.whyNot,
  )
  const wanting = secrets.filter(({ required, scope, given }) => required && !(scope && given))
  return (
    <section className={css.before} aria-label="What will happen">
      <h2>What will happen</h2>
      <ul className={css.facts}>
        {tool.whyNot && (
          <Fact tone="idle" icon={<OctagonX aria-hidden="true" />}>
            Nothing, on this server. Where it has a runner:
          </Fact>
        )}
        {refusals.map((reason) => (
          <Fact key={reason} tone="bad" icon={<OctagonX aria-hidden="true" />}>
            <Prose text={sentence(reason)} />
          </Fact>
        ))}
        {asks.length > 0 && (
          <Fact tone="info" icon={<CircleHelp aria-hidden="true" />}>
            <b>A person is asked first</b>, because{' '}
            {asks.map((reason, index) => (
              <span key={reason}>
                {index > 0 && (index === asks.length - 1 ? ' and ' : ', ')}
                <Prose text={reason} />
              </span>
            ))}
            . <span className={css.quiet}>{whyNot ?? 'You see exactly what would run, and confirm it.'}</span>
          </Fact>
        )}
        {secrets.map((secret) => (
          <SecretFact key={secret.name} secret={secret} tool={tool} />
        ))}
        {tool.hosts.length > 0 && (
          <Fact tone={tool.egressClass === 'write' ? 'egress' : 'idle'} icon={<ArrowUpRight aria-hidden="true" />}>
            It reaches <code>{tool.hosts.join(', ')}</code>.
          </Fact>
        )}
        {refusals.length === 0 && asks.length === 0 && wanting.length === 0 && !tool.whyNot && (
          <Fact tone="ok" icon={<CircleCheck aria-hidden="true" />}>
            It runs at once; nobody is asked.
          </Fact>
        )}
      </ul>
    </section>
  )
}

// The server's own words for it name the secret and the command; here each secret has a line of its own.
function ofSecret(reason: string, secrets: readonly Schemas['SecretStanding'][]): boolean {
  return secrets.some(({ name, scope, given }) => !(scope && given) && reason.includes(`\`${name}\``))
}

const WHOSE: Readonly<Record<Schemas['SecretScope'], string>> = {
  user: 'yours',
  workspace: 'your workspace’s',
  org: 'the whole organisation’s',
}

function SecretFact({ secret, tool }: { secret: Schemas['SecretStanding']; tool: Tool }) {
  const { name, scope, given, required, purpose } = secret
  const why = purpose ? <span className={css.quiet}> {sentence(purpose)}</span> : null
  if (scope && given) {
    return (
      <Fact
        tone={scope === 'org' ? 'warn' : 'idle'}
        icon={scope === 'org' ? <TriangleAlert aria-hidden="true" /> : <KeyRound aria-hidden="true" />}
      >
        It uses <code>{name}</code>, {WHOSE[scope]}.{why}
        {scope === 'org' && (
          <>
            {' '}
            Neither you nor your workspace has one, so every call by anybody here uses this one. Set your own:
            <CopyLine text={`toolgate secret set ${name} --tool ${tool.name}`} what="command" />
          </>
        )}
      </Fact>
    )
  }
  if (scope) {
    return (
      <Fact tone="warn" icon={<KeyRound aria-hidden="true" />}>
        <code>{name}</code> is set ({WHOSE[scope]}), but not given to this tool.{why} Its owner gives it:
        <CopyLine text={`toolgate secret allow ${name} --scope ${scope} --tool ${tool.name}`} what="command" />
      </Fact>
    )
  }
  return (
    <Fact tone={required ? 'warn' : 'idle'} icon={<KeyRound aria-hidden="true" />}>
      <b>{required ? 'Missing key' : 'Optional key'}</b>: <code>{name}</code> is not set.{why} Set it:
      <CopyLine text={`toolgate secret set ${name} --tool ${tool.name}`} what="command" />
    </Fact>
  )
}

function Fact({ tone, icon, children }: { tone: string; icon: ReactNode; children: ReactNode }) {
  return (
    <li className={css.fact}>
      <span className={css[tone]}>{icon}</span>
      <div>{children}</div>
    </li>
  )
}
