// What a run of an agent gave: the answer, the calls it rests on, what its model took; and why there is none.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { OctagonAlert } from 'lucide-react'
import { sentence } from '../../api/errors'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { CopyButton } from '../../ui/CopyLine'
import { ScriptedBadge } from '../../ui/domain'
import { Fact } from '../../ui/Facts'
import { Markdown } from '../../ui/Markdown'
import { Prose } from '../../ui/Prose'
import { agentQuery } from '../agents/queries'
import css from './Answer.module.css'
import { type Ending, endingOf } from './ending'
import { type AgentRun, isEnded, type RunEvent, type RunView } from './queries'

export function Answer({ run, view, events }: { run: AgentRun; view: RunView; events: readonly RunEvent[] }) {
  const { outputs, model_use: used } = run
  const said = outputs?.response ?? ''
  const isAtMost = used.unanswered > 0
  const me = useMe()
  const isCut = events.some(({ type }) => type === 'limit.reached')
  const agent = useQuery({ ...agentQuery(run.agent), enabled: isCut && may(me, 'agents.read') }).data
  const ending = endingOf(events, agent?.effective_limits)
  return (
    <section className={css.answer} aria-label="Answer">
      <header className={css.head}>
        <h2>Answer</h2>
        {used.scripted && <ScriptedBadge />}
        {said !== '' && (
          <span className={css.copy}>
            <CopyButton text={said} what="answer" />
          </span>
        )}
      </header>
      {said !== '' ? (
        <div className={css.said}>
          <Markdown text={said} />
        </div>
      ) : (
        <p className={css.quiet}>{isEnded(view.state) ? 'It came to no answer.' : waitingFor(view.state)}</p>
      )}
      {view.state === 'failed' && <Failed view={view} ending={ending} />}
      {outputs && outputs.tool_order.length > 0 && <Calls run={run} view={view} />}
      <dl className={css.facts}>
        <Fact name="Model">
          <code>{revealed(used.model)}</code>
        </Fact>
        <Fact name="Asked">
          {used.turns} {used.turns === 1 ? 'time' : 'times'}
          {isAtMost && (
            <span className={css.quiet} title="What was held for them counts: nobody knows what they took.">
              ; {used.unanswered} {used.unanswered === 1 ? 'question' : 'questions'} without an answer
            </span>
          )}
        </Fact>
        <Fact name="Tokens">
          {isAtMost && 'at most '}
          {used.input_tokens.toLocaleString('en')} in
          {used.cached_tokens > 0 && ` (${used.cached_tokens.toLocaleString('en')} cached)`},{' '}
          {used.output_tokens.toLocaleString('en')} out
        </Fact>
        <Fact name="Cost of the model">
          {isAtMost && used.cost && 'at most '}
          {used.cost ?? costUnknown(run)}
        </Fact>
      </dl>
    </section>
  )
}

const CHANGE: Readonly<Record<Ending['of'], string>> = {
  run: 'The limit was given to this run alone: begin another with a higher one, or ask for less.',
  agent: 'Raise it among the limits of the agent, or ask for less.',
  unknown: 'Raise it where the run was begun or among the limits of the agent, or ask for less.',
}

function waitingFor(state: string): string {
  return state === 'waiting_human' ? 'It goes on when a person has decided.' : 'The model is at it.'
}

function costUnknown({ model_use: { turns, scripted, model } }: AgentRun) {
  if (turns === 0) return 'nothing yet'
  const provider = model.split('/')[0] ?? ''
  if (scripted) return 'none: nobody was asked'
  return (
    <>
      unknown: <Link {...to.provider(provider)}>set its price</Link>
    </>
  )
}

function Failed({ view, ending }: { view: RunView; ending: Ending | undefined }) {
  return (
    <div className={css.failed}>
      <OctagonAlert aria-hidden="true" />
      <div>
        <p>
          {ending ? (
            <>
              It reached the limit <code>{ending.limit}</code> ({ending.words}
              {ending.used && `: ${ending.used}`}).
            </>
          ) : (
            <Prose text={sentence(view.reason ?? 'it failed')} />
          )}
        </p>
        {ending && (
          <p className={css.quiet}>
            {CHANGE[ending.of]} {view.agent_name && <Link {...to.agent(view.agent_name)}>Open {view.agent_name}</Link>}
          </p>
        )}
      </div>
    </div>
  )
}

/** A call is known to people by its page; the answer knows it by its `call_id`. */
function Calls({ run: { outputs }, view }: { run: AgentRun; view: RunView }) {
  if (!outputs) return null
  const pages = new Map(view.calls.map(({ call_id, id }) => [call_id, id]))
  return (
    <ol className={css.calls} aria-label="Calls it rests on">
      {outputs.tool_order.map((id) => {
        const call = outputs.tools_by_id[id]
        const page = pages.get(id)
        return (
          <li key={id}>
            <code>{revealed(call?.name ?? 'a call')}</code>
            {page ? (
              <Link {...to.call(page)} className={css.id} title={id}>
                <code>{short(id)}</code>
              </Link>
            ) : (
              <code className={css.id} title={id}>
                {short(id)}
              </code>
            )}
            {outputs.response.includes(id) && <span className={css.quiet}>cited</span>}
            {call?.error ? (
              <span className={css.bad}>{call.error.code}</span>
            ) : call?.cached ? (
              <span className={css.quiet}>from the cache</span>
            ) : null}
          </li>
        )
      })}
    </ol>
  )
}

const short = (id: string) => (id.length > 14 ? `c_…${id.slice(-8)}` : id)
