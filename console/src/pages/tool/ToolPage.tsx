// One tool: use it, look back on it, and everything that is known of it.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useCallback, useState } from 'react'
import { asApiError, sentence } from '../../api/errors'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { useShortcuts } from '../../lib/shortcuts'
import { SUBMIT_KEYS } from '../../lib/submitKey'
import { to } from '../../paths'
import { CopyId } from '../../ui/CopyId'
import { ClassBadge, RiskBadge } from '../../ui/domain'
import { Select } from '../../ui/Field'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { type KeyWords, ShortcutsHelp } from '../../ui/ShortcutsHelp'
import { SkeletonRows } from '../../ui/Skeleton'
import { type TabSpec, Tabs } from '../../ui/Tabs'
import { ToolIcon } from '../../ui/ToolIcon'
import { MarkBadge } from '../tools/Marks'
import { toolQueries as libraryQueries } from '../tools/queries'
import { asks, keys, stops } from '../tools/standing'
import { Administer } from './Administer'
import { DetailsTab } from './DetailsTab'
import { DocsTab } from './DocsTab'
import type { Tool } from './definition'
import { HistoryTab } from './HistoryTab'
import { reference, toolQueries } from './queries'
import { RenderingsTab } from './RenderingsTab'
import { RunTab } from './run/RunTab'
import css from './ToolPage.module.css'
import { VersionsTab } from './versions/VersionsTab'

export function ToolPage() {
  const { name } = useParams({ from: '/shell/tools/$name' })
  const { version } = useSearch({ from: '/shell/tools/$name' })
  const all = may(useMe(), 'tools.override')
  const found = useQuery(toolQueries.one(reference(name, version), all))
  if (found.isError && !found.data) {
    return (
      <Page title={name} mono>
        <Body narrow>
          {asApiError(found.error).status === 404 ? (
            <p>
              There is no tool <code>{revealed(reference(name, version))}</code> for you: it may have another name, or
              another version, or you have not been given it.
            </p>
          ) : (
            <Problem error={found.error} retry={() => void found.refetch()} />
          )}
          <Alike name={name} />
        </Body>
      </Page>
    )
  }
  // The tool of the page before stays in sight until this one is there; it must not be taken for it.
  if (!found.data || found.isPlaceholderData) {
    return (
      <Page title={name} mono>
        <SkeletonRows rows={6} />
      </Page>
    )
  }
  return <Shown tool={found.data} version={version} all={all} />
}

/** What may have been meant by a name that is none. */
function Alike({ name }: { name: string }) {
  const found = useInfiniteQuery(libraryQueries.list({ q: name }))
  const items = found.data?.pages[0]?.items.slice(0, ALIKE_MAX) ?? []
  return (
    <div className={css.alike}>
      {items.length > 0 && <h2>Perhaps one of these</h2>}
      <ul>
        {items.map((tool) => (
          <li key={tool.id}>
            <Link {...to.tool(tool.name)}>{tool.name}</Link> <span className={css.quiet}>{revealed(tool.title)}</span>
          </li>
        ))}
        <li>
          <Link {...to.tools()}>All tools</Link>
        </li>
      </ul>
    </div>
  )
}

const ALIKE_MAX = 3

const KEYS: KeyWords = [
  [SUBMIT_KEYS, 'run the tool with what is in the form'],
  ['Ctrl K', 'find another tool, or go anywhere'],
  ['?', 'this list'],
]

function Shown({ tool, version, all }: { tool: Tool; version: string | undefined; all: boolean }) {
  const search = useSearch({ from: '/shell/tools/$name' })
  const navigate = useNavigate({ from: '/tools/$name' })
  const go = useCallback(
    (change: Partial<typeof search>, replace = true) =>
      void navigate({ search: (before) => ({ ...before, ...change }), replace, resetScroll: false }),
    [navigate],
  )
  const show = useCallback((call: string) => go({ call }), [go])
  const preflight = useQuery(toolQueries.preflight(reference(tool.name, version))).data
  const versions = useQuery(toolQueries.versions(tool.name)).data?.items ?? []
  const tabs: readonly TabSpec[] = [
    { id: 'run', label: 'Run', content: () => <RunTab tool={tool} place={search} show={show} /> },
    { id: 'history', label: 'History', content: () => <HistoryTab tool={tool} /> },
    { id: 'docs', label: 'Docs', content: () => <DocsTab tool={tool} version={version} /> },
    {
      id: 'renderings',
      label: 'Renderings',
      content: () => (
        <RenderingsTab tool={tool} version={version} form={search.as} all={all} choose={(as) => go({ as })} />
      ),
    },
    {
      id: 'versions',
      label: 'Versions',
      count: versions.length || undefined,
      content: () => (
        <VersionsTab
          tool={tool}
          compared={search}
          compare={({ from, to: newer }) => go({ from: from ?? '', to: newer ?? '' })}
          use={(chosen) => go({ version: chosen, tab: '' }, false)}
          all={all}
        />
      ),
    },
    { id: 'details', label: 'Details', content: () => <DetailsTab tool={tool} /> },
  ]
  const standing = {
    state: tool.state,
    enabled: tool.enabled,
    stopped: tool.stopped,
    why_not: tool.whyNot,
    requires_approval: tool.asks,
  } as const
  const [help, setHelp] = useState(false)
  useShortcuts({ '?': () => setHelp(true) })
  const tab = tabs.some(({ id }) => id === search.tab) ? (search.tab ?? 'run') : 'run'
  return (
    <Page
      title={tool.title}
      badges={
        <>
          <ClassBadge egressClass={tool.egressClass} />
          <RiskBadge risk={tool.risk} />
          <MarkBadge mark={stops(standing)} />
          <MarkBadge mark={asks(standing)} />
          <MarkBadge mark={keys(preflight?.secrets ?? [])} />
        </>
      }
      actions={
        <>
          {versions.length > 1 && (
            <Select
              label="Version"
              hideLabel
              all={`Newest active (${version ? '…' : tool.version})`}
              options={versions.map(({ version: one, state }) => ({
                id: one,
                label: state === 'active' ? one : `${one} (${state})`,
              }))}
              value={version ?? ''}
              onChange={(chosen) => go({ version: chosen })}
            />
          )}
          <Administer tool={tool} version={version} />
        </>
      }
    >
      <div className={css.identity}>
        <ToolIcon icon={tool.icon} category={tool.category} />
        <CopyId id={`${tool.name}@${tool.version}`} what="name and version" />
        <span className={css.quiet}>{revealed(tool.category)}</span>
      </div>
      <Notice tool={tool} />
      <Tabs label="Parts of the tool" tabs={tabs} chosen={tab} onChoose={(id) => go({ tab: id === 'run' ? '' : id })} />
      {help && <ShortcutsHelp keys={KEYS} onClose={() => setHelp(false)} />}
    </Page>
  )
}

/** Why it does not run, or not for long, in a line that nobody misses. */
function Notice({ tool }: { tool: Tool }) {
  const said = tool.message && sentence(tool.message)
  const words =
    tool.state === 'blocked'
      ? `This version is blocked: no call of it runs. ${said}`
      : tool.stopped
        ? sentence(tool.stopped)
        : !tool.enabled
          ? 'It is switched off in this tenant: nobody but who may switch it on sees it.'
          : tool.whyNot
            ? `${sentence(tool.whyNot)} It can be read and assigned; a call of it would fail.`
            : tool.state === 'deprecated'
              ? `Deprecated${tool.removeBy ? `, promised until ${tool.removeBy}` : ''}. ${said}`
              : ''
  if (words === '') return null
  return (
    <p className={css.notice} data-tone={tool.state !== 'blocked' && tool.enabled && !tool.stopped ? 'warn' : 'bad'}>
      <Prose text={words} />{' '}
      {tool.replacedBy && (
        <>
          Use <Link {...to.tool(tool.replacedBy.split('@')[0] ?? tool.replacedBy)}>{tool.replacedBy}</Link> instead.
        </>
      )}
    </p>
  )
}
