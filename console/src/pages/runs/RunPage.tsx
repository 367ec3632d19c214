// A run as it goes: what it did when, what it waits for, what it cost.
import { useMutation, useQueries, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { Ban, List, Play } from 'lucide-react'
import { lazy, Suspense, useEffect, useState } from 'react'
import { ApiError } from '../../api/errors'
import { useNames } from '../../app/names'
import { type Me, may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { type Outcome, outcomeOf } from '../../lib/outcome'
import { duration } from '../../lib/time'
import { saved } from '../../output/download'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { CopyId } from '../../ui/CopyId'
import { RunBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { TextField } from '../../ui/Field'
import { MenuButton } from '../../ui/MenuButton'
import { notify } from '../../ui/Notices'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { CallDrawer } from '../calls/CallDrawer'
import { Events } from '../calls/Events'
import { Answer } from './Answer'
import { Prompt } from './Prompt'
import { Questions } from './Questions'
import { bundleOf, endRun, isEnded, type RunView, resumeRun, runQueries, type Turn, useRunChange } from './queries'
import css from './RunPage.module.css'
import { RunsUnder } from './RunsUnder'
import { type ModelUse, modelUseOf, type Spent, spentOf, timelineOf } from './rows'
import { Timeline } from './Timeline'
import { type Following, useRunEvents } from './useRunEvents'
import { Waiting } from './Waiting'

// Few runs are of workflows.
const WorkflowRun = lazy(async () => ({ default: (await import('./WorkflowRun')).WorkflowRun }))

export function RunPage() {
  const { id } = useParams({ from: '/shell/runs/$id' })
  const run = useQuery(runQueries.one(id))
  if (run.isPending) {
    return (
      <Page title="Run">
        <SkeletonRows />
      </Page>
    )
  }
  if (run.isError && !run.data) {
    const isGone = run.error instanceof ApiError && run.error.status === 404
    return (
      <Page title="Run">
        {isGone ? (
          <Empty title="There is no such run" command="toolgate run list">
            It may have been deleted by the retention, or it is somebody else’s and you may read only your own.
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={run.error} retry={() => void run.refetch()} />
          </Body>
        )}
      </Page>
    )
  }
  return <Shown key={id} view={run.data} isCut={run.data.isCut} />
}

function Shown({ view, isCut }: { view: RunView; isCut: boolean }) {
  const me = useMe()
  const navigate = useNavigate()
  const [open, setOpen] = useState<string>()
  const [isEnding, setEnding] = useState(false)
  const ended = isEnded(view.state)
  const { events, words, following } = useRunEvents(view.id, ended)
  const questions = useQuery(runQueries.questions(view.id)).data?.items ?? []
  const hosted = useQuery({ ...runQueries.outputs(view.id), enabled: view.kind === 'agent' }).data
  const workflow = useQuery({ ...runQueries.workflow(view.id), enabled: view.kind === 'workflow' }).data
  const turns = useTurns(view)
  const resume = useRunChange(resumeRun)
  const bundle = useMutation({ mutationFn: bundleOf })
  const now = useTick(ended)
  const timeline = timelineOf(view, questions, events, now, turns, words)
  const title = view.title ?? `Run …${view.id.slice(-8)}`
  const why = reasonAgainst(me, view)
  // One that waits goes on by itself, and one that somebody is at is not taken up twice.
  const isAtRest = view.state === 'running' && hosted?.attended === false
  return (
    <Page
      title={title}
      badges={
        <>
          <RunBadge state={view.state} />
          <Live following={following} isEnded={ended} />
        </>
      }
      actions={
        <>
          <Link {...to.calls()} search={{ run: view.id }} className={css.link}>
            <List aria-hidden="true" /> Its calls
          </Link>
          {isAtRest && (
            <Button
              icon={<Play aria-hidden="true" />}
              isPending={resume.isPending}
              disabledReason={may(me, 'agents.run') ? why : 'Resuming needs the permission agents.run'}
              onPress={() =>
                resume.mutate(view.id, { onSuccess: () => notify('It is taken up, if nobody was at it.') })
              }
            >
              Resume
            </Button>
          )}
          {!ended && (
            <Button
              kind="danger"
              icon={<Ban aria-hidden="true" />}
              onPress={() => setEnding(true)}
              {...(why === undefined ? {} : { disabledReason: why })}
            >
              Cancel run
            </Button>
          )}
          {hosted && (
            <MenuButton
              label="More for this run"
              acts={[
                {
                  id: 'bundle',
                  label: 'Export the replay bundle',
                  disabledReason: ended ? undefined : 'Once it has ended',
                  act: () =>
                    bundle.mutate(view.id, {
                      onSuccess: (text) => saved(`run-${view.id}.json`, 'application/json', text),
                    }),
                },
              ]}
            />
          )}
        </>
      }
    >
      {[resume.error, bundle.error].map(
        (error) =>
          error && (
            <Body key={error.message} narrow>
              <Problem error={error} />
            </Body>
          ),
      )}
      <Totals
        view={view}
        spent={spentOf(view, hosted?.model_use, turns, isCut)}
        until={ended ? Date.parse(view.updated_at) : now}
        model={hosted ? undefined : modelUseOf(events)}
        isTold={hosted !== undefined && view.state === 'failed'}
      />
      {!ended && <Waiting calls={view.calls} />}
      <Questions questions={questions} />
      {hosted?.prompt && <Prompt text={hosted.prompt} />}
      {hosted && <Answer run={hosted} view={view} events={events} />}
      {workflow && (
        <Suspense fallback={<SkeletonRows />}>
          <WorkflowRun run={workflow} view={view} questions={questions} />
        </Suspense>
      )}
      {timeline.rows.length === 0 ? (
        <Nothing view={view} />
      ) : (
        <Timeline
          timeline={timeline}
          isLive={!ended}
          onOpen={(row) => (row.kind === 'run' ? void navigate(to.run(row.id)) : setOpen(row.id))}
        />
      )}
      <RunsUnder root={view.id} runs={view.runs} />
      {isCut && (
        <p className={css.cut}>
          The newest calls only.{' '}
          <Link {...to.calls()} search={{ run: view.id }}>
            See all of them
          </Link>
          .
        </p>
      )}
      {events.length > 0 && (
        <div className={css.events}>
          <Section title="Events">
            <Events events={events} from={view.created_at} principal={view.principal} />
          </Section>
        </div>
      )}
      {isEnding && <EndDialog id={view.id} onClose={() => setEnding(false)} />}
      <CallDrawer id={open} rows={view.calls} onOpen={(id) => setOpen(id === '' ? undefined : id)} />
    </Page>
  )
}

function Nothing({ view: { id, kind, state } }: { view: RunView }) {
  if (isEnded(state)) {
    return (
      <Empty title="No calls, steps or questions">
        It has ended, and no more will come: it had none, or the retention has deleted them.
      </Empty>
    )
  }
  // An agent's model or a workflow's graph makes the calls of its run; a person's would only be in the way.
  const isByHand = kind === 'calls'
  return (
    <Empty
      title={isByHand ? 'Nothing has happened yet' : 'It has called nothing yet'}
      {...(isByHand ? { command: `toolgate call echo --run ${id} --input '{"text": "hello"}'` } : {})}
    >
      Calls, steps, questions and the runs under it appear here as they begin.
    </Empty>
  )
}

/** How many runs of agents below it are asked what their models said. */
const TURNS_OF_RUNS_MAX = 20

function useTurns(view: RunView): ReadonlyMap<string, readonly Turn[]> {
  const hosted = [view, ...view.runs].filter(({ kind }) => kind === 'agent').slice(0, TURNS_OF_RUNS_MAX)
  const found = useQueries({ queries: hosted.map(({ id, state }) => runQueries.turns(id, isEnded(state))) })
  return new Map(
    hosted.flatMap(({ id }, index) => {
      const turns = found[index]?.data
      return turns ? [[id, turns] as const] : []
    }),
  )
}

const TICK_MS = 1_000

/** A clock by the second, for bars that grow; it stands still once the run has ended. */
function useTick(isEnded: boolean): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (isEnded) return
    const ticking = setInterval(() => setNow(Date.now()), TICK_MS)
    return () => clearInterval(ticking)
  }, [isEnded])
  return now
}

/** Why this person cannot cancel it; the server has the last word. */
function reasonAgainst(me: Me, view: RunView): string | undefined {
  if (!may(me, 'calls.create')) return 'Ending runs needs the role member'
  if (view.principal === me.principal || may(me, 'members.manage')) return undefined
  if (view.agent_id && may(me, 'agents.manage')) return undefined
  return 'Only who opened it, or manages its agent, can cancel it'
}

function Live({ following, isEnded }: { following: Following; isEnded: boolean }) {
  if (isEnded) return null
  return (
    <span role="status" className={css.live} data-following={following}>
      {following === 'live' ? 'live' : following === 'broken' ? 'reconnecting…' : ''}
    </span>
  )
}

function Totals({
  view,
  spent,
  until,
  model,
  isTold,
}: {
  view: RunView
  spent: Spent
  until: number
  model: ModelUse | undefined
  /** Why it ended stands elsewhere, with what to do about it. */
  isTold: boolean
}) {
  const nameOf = useNames()
  const outcomes = view.calls.map(outcomeOf)
  const count = (outcome: Outcome) => outcomes.filter((one) => one === outcome).length
  const [failed, refused] = [count('failed') + view.unread.length, count('refused')]
  const { max_tool_calls, max_budget, max_iterations } = view.limits
  return (
    <dl className={css.totals}>
      <div>
        <dt>Calls</dt>
        <dd>
          {view.calls_counted}
          {typeof max_tool_calls === 'number' && <span className={css.quiet}> of {max_tool_calls}</span>}
          {failed > 0 && <span className={css.bad}> {failed} failed</span>}
          {refused > 0 && <span className={css.bad}> {refused} refused</span>}
        </dd>
      </div>
      <div>
        <dt>Cost</dt>
        <dd>
          {spent.bound && `${spent.bound} `}
          {spent.all}
          {max_budget && <span className={css.quiet}> of {max_budget}</span>}
          {spent.models !== '0' && (
            <span className={css.quiet}>
              : calls {spent.calls}, models {spent.models}
            </span>
          )}
          {spent.isUnpriced && <span className={css.quiet}>, without what the model took: it has no price</span>}
        </dd>
      </div>
      {model && (
        <div>
          <dt>Model</dt>
          <dd>
            {model.answers} {model.answers === 1 ? 'answer' : 'answers'}
            {typeof max_iterations === 'number' && <span className={css.quiet}> of {max_iterations}</span>},{' '}
            {model.read} tokens in
            {model.cached > 0 && <span className={css.quiet}> ({model.cached} cached)</span>}, {model.written} out
            {model.cost !== '0' && <>, cost {model.cost}</>}
            {model.isScripted && <span className={css.quiet}>, scripted</span>}
          </dd>
        </div>
      )}
      <div>
        <dt>Took</dt>
        <dd>{duration(Math.max(0, until - Date.parse(view.created_at)))}</dd>
      </div>
      <div>
        <dt>Labels</dt>
        <dd>{view.labels.length > 0 ? view.labels.join(', ') : 'none'}</dd>
      </div>
      <div>
        <dt>By</dt>
        <dd>
          {revealed(view.principal_name ?? nameOf(view.principal))}
          {view.agent_name && (
            <>
              {' as '}
              <Link {...to.agent(view.agent_name)}>{revealed(view.agent_name)}</Link>
            </>
          )}
        </dd>
      </div>
      <div>
        <dt>Began</dt>
        <dd>
          <Time at={view.created_at} />
        </dd>
      </div>
      {view.parent_run_id && (
        <div>
          <dt>Under</dt>
          <dd>
            <Link {...to.run(view.parent_run_id)}>run …{view.parent_run_id.slice(-8)}</Link>
          </dd>
        </div>
      )}
      <div>
        <dt>Id</dt>
        <dd className={css.id}>
          <CopyId id={view.id} short what="run id" />
        </dd>
      </div>
      {view.reason && !isTold && (
        <div className={css.reason}>
          <dt>Why it ended</dt>
          <dd>{revealed(view.reason)}</dd>
        </div>
      )}
    </dl>
  )
}

function EndDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const end = useRunChange(endRun)
  const done = () => {
    notify('The run is cancelled.')
    onClose()
  }
  return (
    <ConfirmDialog
      title="Cancel this run?"
      confirm="Cancel the run"
      isPending={end.isPending}
      error={end.error}
      onConfirm={() => end.mutate({ id, reason: reason.trim() }, { onSuccess: done })}
      onClose={onClose}
    >
      <p>
        Calls that run are asked to stop, those that wait are taken back, and no more are taken from it or from the runs
        under it. What was changed stays changed.
      </p>
      <TextField label="Why" value={reason} onChange={setReason} hint="It stays with the run." />
    </ConfirmDialog>
  )
}
