// The library: every tool the person has, found by words and filters, with what to expect of a call.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { PackageOpen, SearchX } from 'lucide-react'
import { useCallback, useEffect, useRef, useState } from 'react'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { useShortcuts } from '../../lib/shortcuts'
import { to } from '../../paths'
import { moveAmongLinks } from '../../ui/arrows'
import { Button } from '../../ui/Button'
import { ClassBadge, RiskBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { SearchField } from '../../ui/Field'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { type KeyWords, ShortcutsHelp } from '../../ui/ShortcutsHelp'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import { ToolIcon } from '../../ui/ToolIcon'
import { Filters } from './Filters'
import { Marks } from './Marks'
import { type Chosen, type ToolRow, toolQueries } from './queries'
import css from './ToolsPage.module.css'

const TYPING_MS = 200
const ROW_PX = 56

const COLUMNS: readonly Column<ToolRow>[] = [
  { id: 'tool', label: 'Tool', width: 'minmax(240px, 1fr)', phone: true, cell: (tool) => <Name tool={tool} /> },
  { id: 'class', label: 'Reach', width: '176px', cell: (tool) => <ClassBadge egressClass={tool.egress_class} /> },
  { id: 'risk', label: 'Risk', width: '84px', phone: true, cell: (tool) => <RiskBadge risk={tool.risk} /> },
  {
    id: 'marks',
    label: 'Before a call',
    // Each row is a grid of its own: only a fixed width stands in line.
    width: '250px',
    cell: (tool) => (
      <span className={css.marks}>
        <Marks tool={tool} />
      </span>
    ),
  },
]

function Name({ tool }: { tool: ToolRow }) {
  return (
    <span className={css.tool}>
      <ToolIcon icon={tool.icon} category={tool.category} />
      <span className={css.words}>
        <span className={css.title}>
          <b>{revealed(tool.title)}</b>
          {tool.title !== tool.name && <code>{tool.name}</code>}
        </span>
        <span className={css.line}>
          <span className={css.phoneMarks}>
            <Marks tool={tool} />
          </span>
          <span className={css.description}>
            <Prose text={tool.description} />
          </span>
        </span>
      </span>
    </span>
  )
}

export function ToolsPage() {
  const me = useMe()
  const chosen = useSearch({ from: '/shell/tools' })
  const navigate = useNavigate({ from: '/tools' })
  const choose = useCallback(
    (change: Chosen) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true }),
    [navigate],
  )
  if (!may(me, 'tools.read')) {
    return (
      <Page title="Tools">
        <Empty title="You may not see tools">
          That needs the permission <code>tools.read</code>, which every role such as <code>viewer</code> has. Ask
          whoever manages people here.
        </Empty>
      </Page>
    )
  }
  return <Library chosen={chosen} choose={choose} administers={may(me, 'tools.override')} />
}

function Library({
  chosen,
  choose,
  administers,
}: {
  chosen: Chosen
  choose: (change: Chosen) => void
  administers: boolean
}) {
  const navigate = useNavigate()
  const found = useInfiniteQuery(toolQueries.list(chosen))
  const categories = useQuery(toolQueries.categories())
  const rows = found.data?.pages.flatMap(({ items }) => items) ?? []
  const list = useRef<HTMLDivElement>(null)
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = found
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage()
  }, [hasNextPage, isFetchingNextPage, fetchNextPage])
  const [help, setHelp] = useState(false)
  useShortcuts({ '?': () => setHelp(true) })
  const narrowed = Object.values(chosen).some(Boolean)
  const everything = categories.data?.items.filter(({ path }) => !path.includes('/'))
  const total = everything?.reduce((sum, { tools }) => sum + tools, 0)
  const count = hasNextPage ? (narrowed ? undefined : total) : rows.length
  return (
    <Page
      title="Tools"
      count={found.data && count !== undefined ? words(count, narrowed) : undefined}
      actions={<Finder key="find" q={chosen.q ?? ''} choose={choose} list={list} />}
    >
      <Filters chosen={chosen} choose={choose} administers={administers} />
      <div role="status" className="visually-hidden">
        {found.data && !found.isPlaceholderData ? `${rows.length} tools shown` : ''}
      </div>
      {found.isError && rows.length === 0 ? (
        <Body narrow>
          <Problem error={found.error} retry={() => void found.refetch()} />
        </Body>
      ) : found.isPending ? (
        <SkeletonRows rows={8} />
      ) : rows.length === 0 ? (
        <Nothing chosen={chosen} narrowed={narrowed} choose={choose} />
      ) : (
        // biome-ignore lint/a11y/noStaticElementInteractions: the links in it have the focus
        <div
          ref={list}
          className={found.isPlaceholderData ? css.stale : undefined}
          onKeyDown={(event) => moveAmongLinks(event, list.current)}
        >
          <Table
            label="Tools"
            columns={COLUMNS}
            rows={rows}
            rowKey={(tool) => tool.id}
            rowLink={(tool) => `/tools/${encodeURIComponent(tool.name)}`}
            onOpen={(tool) => void navigate(to.tool(tool.name))}
            more={more}
            rowPx={ROW_PX}
            {...(count === undefined ? {} : { total: count })}
          />
        </div>
      )}
      {help && <ShortcutsHelp keys={KEYS} onClose={() => setHelp(false)} />}
    </Page>
  )
}

const KEYS: KeyWords = [
  ['/', 'search the library'],
  ['↓ ↑', 'go through the tools'],
  ['Enter', 'open the tool'],
  ['Ctrl K', 'find anything, or go anywhere'],
  ['?', 'this list'],
]

function words(count: number, narrowed: boolean): string {
  const shown = count.toLocaleString('en')
  if (narrowed) return `${shown} found`
  return count === 1 ? '1 tool' : `${shown} tools`
}

/** What is typed becomes part of the address when the typing pauses; `/` comes here from anywhere on the page. */
function Finder({
  q,
  choose,
  list,
}: {
  q: string
  choose: (change: Chosen) => void
  list: React.RefObject<HTMLDivElement | null>
}) {
  const [typed, setTyped] = useState(q)
  const input = useRef<HTMLInputElement>(null)
  const sent = useRef(q)
  useEffect(() => {
    // The address changed by other means: back, or a link.
    if (q !== sent.current) {
      sent.current = q
      setTyped(q)
    }
  }, [q])
  useEffect(() => {
    const wanted = typed.trim()
    if (wanted === sent.current) return
    const pause = setTimeout(() => {
      sent.current = wanted
      choose({ q: wanted })
    }, TYPING_MS)
    return () => clearTimeout(pause)
  }, [typed, choose])
  useEffect(() => {
    const pressed = (event: globalThis.KeyboardEvent) => {
      const target = event.target as HTMLElement | null
      const writing = target?.closest('input, textarea, select, [contenteditable], [role="dialog"]')
      if (event.key !== '/' || writing || event.metaKey || event.ctrlKey || event.altKey) return
      event.preventDefault()
      input.current?.focus()
    }
    window.addEventListener('keydown', pressed)
    return () => window.removeEventListener('keydown', pressed)
  }, [])
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the field in it has the focus
    <div className={css.find} onKeyDown={(event) => moveAmongLinks(event, list.current)}>
      <SearchField label="Search tools" placeholder="Search tools" value={typed} onChange={setTyped} inputRef={input} />
      {typed === '' && (
        <kbd className={css.key} title="Press / to search">
          /
        </kbd>
      )}
    </div>
  )
}

function Nothing({
  chosen,
  narrowed,
  choose,
}: {
  chosen: Chosen
  narrowed: boolean
  choose: (change: Chosen) => void
}) {
  if (!narrowed) {
    return (
      <Empty
        icon={<PackageOpen aria-hidden="true" />}
        title="No tools yet"
        command="toolgate tool register --file examples/tools/getExchangeRate --apply"
      >
        A tool is one file. Register one of the examples, or start the server with <code>--examples</code>.
      </Empty>
    )
  }
  return (
    <Empty
      icon={<SearchX aria-hidden="true" />}
      title={chosen.q ? `Nothing fits “${chosen.q}”` : 'No tool is like that'}
    >
      <p>
        {chosen.q
          ? 'Say it in other words: what the tool should do, not what it may be called.'
          : 'The filters leave nothing.'}{' '}
        Tools that are deprecated, switched off or not given to you are not shown.
      </p>
      <p className={css.ways}>
        <Button
          onPress={() =>
            choose({ q: '', category: '', risk: '', class: '', kind: '', origin: '', state: '', deprecated: '' })
          }
        >
          Show all tools
        </Button>
        {!chosen.deprecated && !chosen.state && (
          <Button kind="quiet" onPress={() => choose({ deprecated: 'yes' })}>
            Look among deprecated ones too
          </Button>
        )}
      </p>
    </Empty>
  )
}
