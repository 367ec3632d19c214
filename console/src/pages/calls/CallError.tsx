// Why a call did not do what was asked: the words, the code, the places in the input, what to do.
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client'
import { sentence } from '../../api/errors'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Json } from '../../ui/Json'
import { Prose } from '../../ui/Prose'
import css from './Call.module.css'
import type { Call } from './queries'
import { reasonOf, remedyOf, upstreamOf, violationsOf } from './remedy'

export function CallError({ error, call }: { error: Schemas['ToolError']; call: Pick<Call, 'name'> }) {
  const violations = violationsOf(error)
  const reason = reasonOf(error)
  const remedy = remedyOf(error, call.name)
  const upstream = upstreamOf(error)
  const traceback = tracebackOf(error.details)
  const rest = moreOf(error.details)
  return (
    <section className={css.error} aria-label="Error">
      <h2>Error</h2>
      {violations.length === 0 && <p className={css.message}>{revealed(sentence(error.message))}</p>}
      {violations.length > 0 && (
        <>
          <p className={css.message}>
            The input does not fit the tool’s schema{violations.length > 1 ? ` in ${violations.length} places` : ''}.
          </p>
          <ul className={css.violations}>
            {violations.map(({ field, expected, found, message }) => (
              <li key={`${field} ${message}`}>
                <code>{revealed(field)}</code> expected {revealed(expected)}, got {revealed(found)}
              </li>
            ))}
          </ul>
        </>
      )}
      {remedy && (
        <p>
          <Prose text={remedy} />
        </p>
      )}
      {upstream !== undefined && (
        <p>
          <Link {...to.upstream(upstream)}>Connect with {upstream}</Link>
        </p>
      )}
      {typeof error.retry_after_s === 'number' && <p>Try again in {error.retry_after_s} s.</p>}
      <p className={css.code}>
        <code>{error.code}</code>
        {reason && <code>{revealed(reason)}</code>}
      </p>
      {traceback !== undefined && <pre className={css.traceback}>{revealed(traceback)}</pre>}
      {rest && <Json value={rest} openDepth={2} />}
    </section>
  )
}

/** Where in its code a tool failed: its lines mean something by where they begin. */
function tracebackOf(details: unknown): string | undefined {
  const { traceback } = (details ?? {}) as { traceback?: unknown }
  return typeof traceback === 'string' && traceback.trim() !== '' ? traceback.trimEnd() : undefined
}

/** What the details say beyond what is written out above. */
function moreOf(details: unknown): object | undefined {
  if (typeof details !== 'object' || details === null) return undefined
  const { reason: _, violations: __, traceback: ___, ...rest } = details as Record<string, unknown>
  return Object.keys(rest).length > 0 ? rest : undefined
}
