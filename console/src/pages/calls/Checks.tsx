// Each step of a verification: what was compared, and whether it holds.
import { Minus, ShieldAlert, ShieldCheck, ShieldQuestion, Check as Tick, X } from 'lucide-react'
import { revealed } from '../../lib/hidden'
import type { Check, Evidence, Outcome, Verification } from '../../lib/proof'
import type { Tampering } from '../../lib/proof-tamper'
import { Prose } from '../../ui/Prose'
import css from './Checks.module.css'

const AROUND = 28

export function Checks({
  verification: { checks, broken, holds },
  tampering,
  evidence,
}: {
  verification: Verification
  tampering: Tampering | undefined
  evidence: Evidence
}) {
  const outcome: Outcome = broken ? 'broken' : holds ? 'holds' : 'skipped'
  return (
    <div className={css.checks} data-outcome={outcome}>
      <p className={css.verdict}>
        {outcome === 'broken' ? (
          <ShieldAlert aria-hidden="true" />
        ) : holds ? (
          <ShieldCheck aria-hidden="true" />
        ) : (
          <ShieldQuestion aria-hidden="true" />
        )}
        {broken
          ? `Not what was logged: it breaks at “${broken.title}”.`
          : holds
            ? 'Verified in this browser.'
            : 'Not everything could be checked here.'}
      </p>
      {tampering && (
        <p className={css.tampering}>
          One byte is changed:{' '}
          <code>
            …{revealed(evidence.entry.slice(Math.max(0, tampering.at - AROUND), tampering.at))}
            <del>{tampering.was}</del>
            <ins>{tampering.becomes}</ins>
            {revealed(evidence.entry.slice(tampering.at + 1, tampering.at + AROUND))}…
          </code>
        </p>
      )}
      <ol>
        {checks.map((check) => (
          <Step key={check.id} check={check} />
        ))}
      </ol>
      <details className={css.raw}>
        <summary>The entry and the proof as they were given</summary>
        <pre>{revealed(evidence.entry)}</pre>
        <pre>{revealed(evidence.proof)}</pre>
      </details>
    </div>
  )
}

const MARKS: Record<Outcome, string> = { holds: 'holds', broken: 'broken', skipped: 'not checked' }

function Step({ check: { id, title, outcome, words, values } }: { check: Check }) {
  return (
    <li data-outcome={outcome} data-check={id}>
      <span className={css.mark}>
        {outcome === 'holds' ? (
          <Tick aria-hidden="true" />
        ) : outcome === 'broken' ? (
          <X aria-hidden="true" />
        ) : (
          <Minus aria-hidden="true" />
        )}
        <span className="visually-hidden">{MARKS[outcome]}: </span>
      </span>
      <h3>{title}</h3>
      <p>
        <Prose text={words} />
      </p>
      {values.length > 0 && (
        <dl>
          {values.map(({ label, value }) => (
            <div key={`${label} ${value}`}>
              <dt>{label}</dt>
              <dd>
                <code>{revealed(value)}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </li>
  )
}
