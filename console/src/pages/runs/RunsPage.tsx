// Runs: what agents and people did in one go, newest first.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { SearchX, SquareChartGantt } from 'lucide-react'
import { useCallback, useMemo } from 'react'
import { queryClient } from '../../api/queries'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { RunBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Select } from '../../ui/Field'
import { FilterBar } from '../../ui/FilterBar'
import { counted, LiveList, useMore } from '../../ui/LiveList'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import { freshOf } from '../calls/fresh'
import { callQueries } from '../calls/queries'
import { isZero } from '../home/amount'
import { type Chosen, isEnded, type RunRow, runQueries } from './queries'
import css from './RunsPage.module.css'

const STATES = [
  { id: 'running', label: 'running' },
  { id: 'waiting_human', label: 'waits for a person' },
  { id: 'queued', label: 'queued' },
  { id: 'completed', label: 'completed' },
  { id: 'failed', label: 'failed' },
  { id: 'cancelled', label: 'cancelled' },
]

const KINDS = [
  { id: 'agent', label: 'of agents' },
  { id: 'workflow', label: 'of workflows' },
  { id: 'calls', label: 'of calls' },
]

const COLUMNS: readonly Column<RunRow>[] = [
  { id: 'title', label: 'Run', width: 'minmax(220px, 1fr)', phone: true, cell: (run) => <Title run={run} /> },
  { id: 'state', label: 'State', width: '156px', phone: true, cell: ({ state }) => <RunBadge state={state} /> },
  { id: 'who', label: 'By', width: 'minmax(110px, 200px)', word: 'by', cell: who },
  {
    id: 'calls',
    label: 'Calls',
    width: '64px',
    align: 'right',
    word: 'calls',
    cell: ({ calls_counted }) => calls_counted,
  },
  { id: 'cost', label: 'Cost', width: '92px', align: 'right', word: 'cost', cell: costOf },
  { id: 'took', label: 'Took', width: '92px', align: 'right', word: 'took', cell: took },
  {
    id: 'when',
    label: 'Began',
    width: '92px',
    align: 'right',
    word: 'began',
    cell: ({ created_at }) => <Time at={created_at} />,
  },
]

const NO_CHOICE: Chosen = { state: '', agent: '', kind: '' }

function Title({ run }: { run: RunRow }) {
  return (
    <span className={css.title}>
      <span>{run.title ? revealed(run.title) : <code>…{run.id.slice(-8)}</code>}</span>
      {run.kind === 'workflow' && <span className={css.quiet}>workflow</span>}
      {run.prompt && (
        <span className={`${css.quiet} ${css.prompt}`} title={run.prompt}>
          {revealed(run.prompt)}
        </span>
      )}
      {run.parent_run_id && <span className={css.quiet}>under another run</span>}
      {run.reason && <span className={`${css.quiet} ${css.reason}`}>{revealed(run.reason)}</span>}
    </span>
  )
}

function who({ agent_name, agent_id, principal_name, principal }: RunRow) {
  const agent = agent_name ?? agent_id
  const person = principal_name ?? principal
  return (
    <span title={agent ? `${person} as agent ${agent}` : person}>
      {revealed(agent ?? person)}
      {agent && <span className={css.quiet}> agent</span>}
    </span>
  )
}

function took({ state, created_at, updated_at }: RunRow): string {
  return isEnded(state) ? duration(Date.parse(updated_at) - Date.parse(created_at)) : ''
}

/** A model without a price cost something all the same. */
function costOf({ cost, unpriced }: RunRow): string {
  if (unpriced > 0) return isZero(cost) ? 'unknown' : `over ${cost}`
  return isZero(cost) ? '' : cost
}

/** While none has ended, nothing took any time; and where nothing costs, nothing did. */
function columnsOf(runs: readonly RunRow[]): readonly Column<RunRow>[] {
  const isTold = (of: (run: RunRow) => string) => runs.some((run) => of(run) !== '')
  return COLUMNS.filter(({ id }) => (id === 'took' ? isTold(took) : id === 'cost' ? isTold(costOf) : true))
}

export function RunsPage() {
  const me = useMe()
  const chosen = useSearch({ from: '/shell/runs' })
  const navigate = useNavigate({ from: '/runs' })
  const choose = useCallback(
    (change: Chosen) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true }),
    [navigate],
  )
  if (!may(me, 'calls.read.own') && !may(me, 'calls.read.all')) {
    return (
      <Page title="Runs">
        <Empty title="You may not see runs">
          That needs the permission <code>calls.read.own</code>, which the role <code>viewer</code> has. Ask whoever
          manages people here.
        </Empty>
      </Page>
    )
  }
  return <RunList chosen={chosen} choose={choose} mayReadAgents={may(me, 'agents.read')} />
}

function RunList({
  chosen,
  choose,
  mayReadAgents,
}: {
  chosen: Chosen
  choose: (change: Chosen) => void
  mayReadAgents: boolean
}) {
  const navigate = useNavigate()
  const found = useInfiniteQuery(runQueries.pages(chosen))
  const newest = useQuery({ ...runQueries.newest(chosen), enabled: found.isSuccess })
  const agents = useQuery(callQueries.agentNames(mayReadAgents)).data?.items ?? []
  const known = useMemo(() => found.data?.pages.flatMap(({ items }) => items) ?? [], [found.data])
  const fresh = useMemo(() => freshOf(newest.data?.items, known), [newest.data, known])
  const rows = useMemo(() => known.map((run) => fresh.changed.get(run.id) ?? run), [known, fresh.changed])
  const more = useMore(found)
  const filters = [chosen.state, chosen.agent, chosen.kind].filter(Boolean).length
  const columns = useMemo(() => columnsOf(rows), [rows])
  const showNew = () => {
    window.scrollTo({ top: 0 })
    void queryClient.resetQueries({ queryKey: runQueries.pages(chosen).queryKey })
  }
  const named = agents.map(({ name }) => ({ id: name, label: name }))
  const offered =
    chosen.agent && !named.some(({ id }) => id === chosen.agent)
      ? [...named, { id: chosen.agent, label: chosen.agent }]
      : named
  return (
    <Page
      title="Runs"
      count={found.data && rows.length > 0 ? counted(rows.length, found.hasNextPage, 'run') : undefined}
    >
      <FilterBar count={filters} onClear={() => choose(NO_CHOICE)}>
        <Select
          label="State"
          hideLabel
          all="Any state"
          options={STATES}
          value={chosen.state ?? ''}
          onChange={(state) => choose({ state })}
        />
        <Select
          label="Kind"
          hideLabel
          all="Any kind"
          options={KINDS}
          value={chosen.kind ?? ''}
          onChange={(kind) => choose({ kind })}
        />
        {offered.length > 0 && (
          <Select
            label="Agent"
            hideLabel
            all="Any agent"
            options={offered}
            value={chosen.agent ?? ''}
            onChange={(agent) => choose({ agent })}
          />
        )}
      </FilterBar>
      {found.isError && known.length === 0 ? (
        <Body narrow>
          <Problem error={found.error} retry={() => void found.refetch()} />
        </Body>
      ) : found.isPending ? (
        <SkeletonRows rows={8} />
      ) : known.length === 0 && fresh.count === 0 ? (
        <Nothing narrowed={filters > 0} choose={choose} />
      ) : (
        <LiveList fresh={fresh} showNew={showNew}>
          <Table
            label="Runs"
            columns={columns}
            rows={rows}
            rowKey={({ id }) => id}
            rowLink={({ id }) => `/runs/${id}`}
            onOpen={({ id }) => void navigate(to.run(id))}
            more={more}
            cards
          />
        </LiveList>
      )}
    </Page>
  )
}

function Nothing({ narrowed, choose }: { narrowed: boolean; choose: (change: Chosen) => void }) {
  if (narrowed) {
    return (
      <Empty icon={<SearchX aria-hidden="true" />} title="No run is like that">
        <p>The filters leave nothing.</p>
        <p>
          <Button onPress={() => choose(NO_CHOICE)}>Show all runs</Button>
        </p>
      </Empty>
    )
  }
  return (
    <Empty
      icon={<SquareChartGantt aria-hidden="true" />}
      title="No runs yet"
      command={"toolgate run create --title 'Sort the inbox'"}
    >
      A run holds the calls that belong together, with steps, limits and one budget. Agents open one for each task; a
      lone call is a run by itself and listed under Calls.
    </Empty>
  )
}
