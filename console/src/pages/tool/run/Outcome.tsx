// What came of a call, or how far it is: it waits, it runs and talks, it ended.
import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { CircleStop, Download, RotateCw } from 'lucide-react'
import type { Schemas } from '../../../api/client'
import { sentence } from '../../../api/errors'
import { useNow } from '../../../lib/clock'
import { revealed } from '../../../lib/hidden'
import { duration } from '../../../lib/time'
import { Output } from '../../../output/Output'
import { to } from '../../../paths'
import { Button } from '../../../ui/Button'
import { CopyId } from '../../../ui/CopyId'
import { CallBadge, MannerBadge } from '../../../ui/domain'
import { Problem } from '../../../ui/Problem'
import { Prose } from '../../../ui/Prose'
import { Time } from '../../../ui/Time'
import type { Tool } from '../definition'
import { act } from '../queries'
import type { useLiveCall } from './live'
import css from './Run.module.css'
import { reasonOf, remedyOf } from './refusal'
import { Waiting } from './Waiting'

type Details = Schemas['CallDetails']

export function Outcome({
  tool,
  live,
  toCorrect,
  runAgain,
}: {
  tool: Tool
  live: ReturnType<typeof useLiveCall>
  /** How many things of the input the form shows as wrong because of this call. */
  toCorrect: number
  runAgain: (() => void) | undefined
}) {
  const { call, isOpen, said } = live
  const cancel = useMutation({ mutationFn: act.cancel, onSuccess: () => live.refetch() })
  if (!call && live.error) return <Problem error={live.error} retry={() => void live.refetch()} />
  if (!call) return <div className={css.waitingFacts} role="status" aria-label="Calling" />
  const isRunning = call.status === 'running' || call.status === 'approved'
  return (
    <section className={css.outcome} aria-label="Result">
      <header className={css.outcomeHead}>
        <h2>{call.mode === 'dry_run' ? 'Dry run' : 'Result'}</h2>
        <span role="status">
          <CallBadge status={call.status} error={call.error?.code} />
        </span>
        {call.cached && (
          <span title="An earlier answer to the same input">
            <MannerBadge manner="cached" />
          </span>
        )}
        {isRunning ? <Took from={call.started_at ?? call.created_at} /> : <Ended call={call} />}
        <span className={css.right}>
          {isOpen && (
            <Button
              size="small"
              icon={<CircleStop aria-hidden="true" />}
              isPending={cancel.isPending}
              onPress={() => cancel.mutate(call.id)}
              {...(call.cancel_requested_by ? { disabledReason: 'It was asked to stop.' } : {})}
            >
              {call.status === 'pending' ? 'Withdraw' : 'Cancel'}
            </Button>
          )}
          {!isOpen && runAgain && (
            <Button size="small" icon={<RotateCw aria-hidden="true" />} onPress={runAgain}>
              Run again
            </Button>
          )}
        </span>
      </header>
      {cancel.error && <Problem error={cancel.error} />}
      {call.awaits_worker && (
        <p className={css.quiet}>
          No worker has taken it yet. It runs when one that leases this tool comes, and fails when its time is over.
        </p>
      )}
      {call.status === 'pending' && <Waiting call={call} refetch={live.refetch} />}
      {said !== '' && (
        <div className={css.said}>
          <h3>{isOpen ? 'It says' : 'It said'}</h3>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
          <pre role="log" aria-label="Live output" tabIndex={0}>
            {revealed(said)}
          </pre>
        </div>
      )}
      <Failure call={call} toCorrect={toCorrect} />
      {call.output !== undefined && call.output !== null && (
        <Output result={call.output} sections={call.mode === 'dry_run' ? [] : tool.sections} />
      )}
      <Attachments list={call.attachments ?? []} truncated={call.truncated === true} />
      {(call.warnings ?? []).map((warning) => (
        <p key={warning} className={css.warning}>
          <Prose text={sentence(warning)} />
        </p>
      ))}
      <footer className={css.record}>
        Call <CopyId id={call.id} short what="call id" />
        <Link {...to.call(call.id)}>See its record</Link>
      </footer>
    </section>
  )
}

function Took({ from }: { from: string }) {
  useNow()
  return (
    <span className={css.quiet}>
      since <Time at={from} />
    </span>
  )
}

function Ended({ call }: { call: Details }) {
  if (!call.completed_at) return null
  const took = new Date(call.completed_at).getTime() - new Date(call.started_at ?? call.created_at).getTime()
  return (
    <span className={css.quiet}>
      {duration(took)}
      {call.cost ? ` · ${call.cost}` : ''} · <Time at={call.completed_at} />
    </span>
  )
}

function Failure({ call, toCorrect }: { call: Details; toCorrect: number }) {
  const { error } = call
  const decider = call.approval_decided_by_name ?? call.approval_decided_by
  if (call.status === 'rejected') {
    return (
      <div className={css.failure} role="alert">
        <p>
          <b>Rejected{decider ? <> by {revealed(decider)}</> : ''}.</b>{' '}
          {call.approval_reason ? revealed(sentence(call.approval_reason)) : 'No reason was given.'}
        </p>
      </div>
    )
  }
  if (call.status === 'outcome_unknown') {
    return (
      <div className={css.failure} role="alert">
        <p>
          <b>Nobody knows how it ended.</b> It may have had its effect. Look before you run it again, then say in its
          record how it went.
        </p>
      </div>
    )
  }
  if (call.status === 'cancelled') {
    return (
      <p className={css.quiet}>
        {call.cancel_requested_by ? 'It was asked to stop, and stopped.' : 'It was stopped before it ended.'}
      </p>
    )
  }
  if (!error) return null
  const reason = reasonOf(error)
  // What is wrong stands at the fields, which the form leads to: here it is only said that it did not run.
  if (toCorrect > 0) {
    return (
      <p className={css.code}>
        <span>The input was refused: see the form.</span>
        <code>{error.code}</code>
      </p>
    )
  }
  return (
    <div className={css.failure} role="alert">
      <p>
        <b>
          <Prose text={sentence(error.message)} />
        </b>
      </p>
      <p className={css.quiet}>{remedyOf(error)}</p>
      <p className={css.code}>
        <code>{error.code}</code>
        {reason && <code>{reason}</code>}
      </p>
    </div>
  )
}

function Attachments({ list, truncated }: { list: readonly Schemas['Attachment'][]; truncated: boolean }) {
  // What a tool made is taken from this server or not at all.
  const own = list.filter(({ url }) => url.startsWith('/api/v1/blobs/'))
  if (own.length === 0) return null
  return (
    <div>
      {truncated && <p className={css.quiet}>The output is longer than shown; the whole is a file:</p>}
      <ul className={css.files}>
        {own.map(({ url, content_type, bytes }) => (
          <li key={url}>
            <a href={url} download>
              <Download aria-hidden="true" /> {content_type ?? 'File'}
              {bytes ? `, ${bytes.toLocaleString('en')} bytes` : ''}
            </a>
          </li>
        ))}
      </ul>
    </div>
  )
}
