// The history: every call the person may see, newest first, however many there are.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { History, SearchX } from 'lucide-react'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { type LiveEvent, useLiveEvents } from '../../api/live'
import { queryClient } from '../../api/queries'
import { may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { Empty } from '../../ui/Empty'
import { counted, LiveList, useMore } from '../../ui/LiveList'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { useRowPx } from '../../ui/rowPx'
import { SkeletonRows } from '../../ui/Skeleton'
import { Table, type TableHandle } from '../../ui/Table'
import { CallDrawer } from './CallDrawer'
import css from './CallsPage.module.css'
import { type Chosen, FILTERS, filtersOf } from './chosen'
import { columnsOf } from './columns'
import { Filters } from './Filters'
import { freshOf, statusOf, withChanges } from './fresh'
import { JumpTo } from './JumpTo'
import { NoSuchName, unknownName } from './NoSuchName'
import { type CallRow, callQueries } from './queries'

export function CallsPage() {
  const me = useMe()
  const search = useSearch({ from: '/shell/calls' })
  const navigate = useNavigate({ from: '/calls' })
  const choose = useCallback(
    (change: Chosen & { call?: string }) =>
      void navigate({
        search: (before) => ({ ...before, ...change }),
        replace: !('call' in change),
        resetScroll: false,
      }),
    [navigate],
  )
  if (!may(me, 'calls.read.own') && !may(me, 'calls.read.all')) {
    return (
      <Page title="Calls">
        <Empty title="You may not see calls">
          That needs the permission <code>calls.read.own</code>, which the role <code>viewer</code> has. Ask whoever
          manages people here.
        </Empty>
      </Page>
    )
  }
  return <CallList chosen={filtersOf(search)} choose={choose} open={search.call} />
}

/** Statuses as events told them since the list was read. */
function useTold(): ReadonlyMap<string, CallRow['status']> {
  const [told, setTold] = useState<ReadonlyMap<string, CallRow['status']>>(new Map())
  const heard = useCallback((event: LiveEvent) => {
    const status = statusOf(event)
    const { call_id } = event
    if (status && call_id) setTold((before) => new Map(before).set(call_id, status))
  }, [])
  useLiveEvents(heard)
  return told
}

function CallList({
  chosen,
  choose,
  open,
}: {
  chosen: Chosen
  choose: (change: Chosen & { call?: string }) => void
  open: string | undefined
}) {
  const table = useRef<TableHandle>(null)
  const rowPx = useRowPx()
  const found = useInfiniteQuery(callQueries.pages(chosen))
  const newest = useQuery({ ...callQueries.newest(chosen), enabled: found.isSuccess && !found.isPlaceholderData })
  const told = useTold()
  const known = useMemo(() => found.data?.pages.flatMap(({ items }) => items) ?? [], [found.data])
  const fresh = useMemo(() => freshOf(newest.data?.items, known), [newest.data, known])
  const rows = useMemo(() => withChanges(known, fresh.changed, told), [known, fresh.changed, told])
  const columns = useMemo(() => columnsOf(rows), [rows])
  const { hasNextPage, fetchNextPage } = found
  const more = useMore(found)
  const unknown = unknownName(found.error, chosen)
  const narrowed = Object.keys(chosen).length > 0
  // Nothing is shown yet, so nothing can move: what comes is shown at once.
  const isEmpty = found.isSuccess && !found.isPlaceholderData && known.length === 0
  useEffect(() => {
    if (isEmpty && fresh.count > 0) void queryClient.resetQueries({ queryKey: callQueries.pages(chosen).queryKey })
  }, [isEmpty, fresh.count, chosen])
  const showNew = () => {
    window.scrollTo({ top: 0 })
    void queryClient.resetQueries({ queryKey: callQueries.pages(chosen).queryKey })
  }
  const openCall = useCallback((row: CallRow) => choose({ call: row.id }), [choose])
  const linkOf = useCallback((row: CallRow) => `/calls/${row.id}`, [])
  return (
    <Page
      title="Calls"
      count={found.data && !isEmpty ? counted(rows.length, hasNextPage, 'call') : undefined}
      actions={
        <JumpTo
          rows={rows}
          isMore={hasNextPage}
          more={more}
          reveal={(index) => table.current?.reveal(index)}
          until={(until) => choose({ until })}
        />
      }
    >
      <Filters chosen={chosen} choose={choose} />
      <div role="status" className="visually-hidden">
        {found.isSuccess && !found.isPlaceholderData ? `${counted(rows.length, hasNextPage, 'call')} shown` : ''}
      </div>
      {unknown ? (
        <NoSuchName unknown={unknown} choose={choose} />
      ) : found.isError && known.length === 0 ? (
        <Body narrow>
          <Problem error={found.error} retry={() => void found.refetch()} />
        </Body>
      ) : found.isPending ? (
        <SkeletonRows rows={8} />
      ) : isEmpty ? (
        <Nothing narrowed={narrowed} choose={choose} />
      ) : (
        <LiveList fresh={fresh} showNew={showNew} isStale={found.isPlaceholderData}>
          <Table
            label="Calls"
            columns={columns}
            handle={table}
            rows={rows}
            rowKey={(row) => row.id}
            rowLink={linkOf}
            onOpen={openCall}
            more={more}
            rowPx={rowPx}
          />
          {found.isError && (
            <Body narrow>
              <Problem error={found.error} retry={() => void fetchNextPage()} />
            </Body>
          )}
        </LiveList>
      )}
      <CallDrawer id={open} rows={rows} onOpen={(id) => choose({ call: id })} />
    </Page>
  )
}

function Nothing({ narrowed, choose }: { narrowed: boolean; choose: (change: Chosen) => void }) {
  if (!narrowed) {
    return (
      <Empty
        icon={<History aria-hidden="true" />}
        title="Nothing was called yet"
        command={'toolgate call echo --input \'{"text": "hello"}\''}
      >
        Every call of a tool is listed here, with how it was decided and what came of it. Run one from its page under
        Tools, or from a terminal:
      </Empty>
    )
  }
  return (
    <Empty icon={<SearchX aria-hidden="true" />} title="No call is like that">
      <p>The filters leave nothing. Calls of others are listed only for who may read all calls.</p>
      <p className={css.ways}>
        <Button onPress={() => choose(Object.fromEntries(FILTERS.map((name) => [name, ''])))}>Show all calls</Button>
      </p>
    </Empty>
  )
}
