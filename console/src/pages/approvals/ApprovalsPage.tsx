// The inbox: what waits at the left, the chosen call at the right; on a narrow screen one after the other.
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { ArrowLeft, CircleCheckBig, Keyboard } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { may, useMe } from '../../app/session'
import { useShortcuts } from '../../lib/shortcuts'
import { Button } from '../../ui/Button'
import { Empty } from '../../ui/Empty'
import { Select } from '../../ui/Field'
import { Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { ShortcutsHelp } from '../../ui/ShortcutsHelp'
import { SkeletonRows } from '../../ui/Skeleton'
import css from './ApprovalsPage.module.css'
import { BulkBar } from './BulkBar'
import { CardView } from './CardView'
import { type Card, toolOf } from './card'
import { Inbox } from './Inbox'
import { KEYS } from './keys'
import { cardQuery, inbox } from './queries'
import { useSteady } from './steady'

const STATES = [
  { id: 'open', label: 'Waiting' },
  { id: 'approved', label: 'Approved' },
  { id: 'rejected', label: 'Rejected' },
  { id: 'expired', label: 'Expired' },
  { id: 'cancelled', label: 'Cancelled' },
  { id: 'all', label: 'All' },
] as const

/** Where the list and the card stand side by side; the same width as in the styles. */
const WIDE = '(width > 960px)'

export function ApprovalsPage() {
  const search = useSearch({ from: '/shell/approvals' })
  const navigate = useNavigate({ from: '/approvals' })
  const state = search.state ?? 'open'
  const { tool, agent, id } = search
  const list = useInfiniteQuery(inbox({ state, tool, agent }))
  const items: readonly Card[] | undefined = list.data?.pages.flatMap((page) => page.items)
  const steady = useSteady(items, `${state} ${tool} ${agent}`, list.data?.pages.length ?? 0)
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [help, setHelp] = useState(false)
  const decides = may(useMe(), 'approvals.decide')

  // A new object each time would be another address; only what is given changes.
  const go = (change: { state?: string; tool?: string; agent?: string; id?: string }, replace = false) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace })
  const toggle = (one: string) => {
    const next = new Set(chosen)
    if (!next.delete(one)) next.add(one)
    setChosen(next)
  }

  // Beside an empty half of the screen the first one is opened, once: after a decision nothing comes by itself.
  const opened = useRef(false)
  const first = steady.rows[0]?.id
  useEffect(() => {
    if (opened.current || !first) return
    opened.current = true
    if (!id && window.matchMedia(WIDE).matches) go({ id: first }, true)
  })

  // A link may name the call instead of the approval.
  const at = steady.rows.findIndex((row) => row.id === id || row.call_id === id)
  const current = steady.rows[at]
  const move = (by: 1 | -1) => {
    const row = steady.rows[at < 0 ? (by === 1 ? 0 : steady.rows.length - 1) : at + by]
    if (!row) return
    go({ id: row.id }, true)
    document.getElementById(`row-${row.id}`)?.scrollIntoView({ block: 'nearest' })
  }
  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    x: () => {
      if (decides && current?.state === 'open') toggle(current.id)
    },
    '?': () => setHelp(true),
    Escape: () => {
      if (chosen.size > 0) setChosen(new Set())
      else if (id && !window.matchMedia(WIDE).matches) go({ id: '' })
    },
  })

  // The next one that still waits, for the button behind a decision.
  const following = steady.rows.slice(at + 1).find((row) => row.state === 'open' && !steady.gone.has(row.id))
  return (
    <Page
      title="Approvals"
      count={items && state === 'open' ? `${items.length}${list.hasNextPage ? '+' : ''} waiting` : undefined}
      actions={
        <Button size="small" kind="quiet" icon={<Keyboard />} onPress={() => setHelp(true)}>
          Keys
        </Button>
      }
    >
      <div className={css.split} data-chosen={id ? true : undefined}>
        <section className={css.left} aria-label="Calls">
          <Filters state={state} tool={tool} agent={agent} onChange={(change) => go({ id: '', ...change })} />
          {steady.news > 0 && (
            <button type="button" className={css.news} onClick={steady.catchUp}>
              {steady.news} new
            </button>
          )}
          <div className={css.list}>
            {list.isPending ? (
              <SkeletonRows />
            ) : list.isError && !items ? (
              <div className={css.padded}>
                <Problem error={list.error} retry={() => void list.refetch()} />
              </div>
            ) : steady.rows.length === 0 ? (
              <Nothing state={state} filtered={Boolean(tool || agent)} />
            ) : (
              <Inbox
                rows={steady.rows}
                gone={steady.gone}
                current={current?.id}
                chosen={chosen}
                onToggle={decides ? toggle : undefined}
                more={list.hasNextPage ? () => void list.fetchNextPage() : undefined}
              />
            )}
          </div>
          <BulkBar
            cards={steady.rows.filter((row) => chosen.has(row.id) && !steady.gone.has(row.id))}
            onClear={() => setChosen(new Set())}
          />
        </section>
        <section className={css.right} aria-label="The chosen call" data-pane>
          {id ? (
            <>
              <div className={css.back}>
                <Button size="small" kind="quiet" icon={<ArrowLeft />} onPress={() => go({ id: '' })}>
                  All calls
                </Button>
              </div>
              <Chosen id={id} following={following} onNext={following && (() => go({ id: following.id }, true))} />
            </>
          ) : (
            steady.rows.length > 0 && <p className={css.hint}>Choose a call, or press j.</p>
          )}
        </section>
      </div>
      {help && <ShortcutsHelp keys={KEYS} onClose={() => setHelp(false)} />}
    </Page>
  )
}

function Filters({
  state,
  tool,
  agent,
  onChange,
}: {
  state: string
  tool: string | undefined
  agent: string | undefined
  onChange: (change: { state?: string; tool?: string; agent?: string }) => void
}) {
  // What there is to choose from: the tools and agents of this state, and whatever the address says.
  const all = useInfiniteQuery({ ...inbox({ state }), placeholderData: keepPreviousData })
  const cards: readonly Card[] = all.data?.pages.flatMap((page) => page.items) ?? []
  const names = (found: (string | null | undefined)[]) =>
    [...new Set(found.filter((name) => typeof name === 'string' && name !== ''))]
      .sort()
      .map((name) => ({ id: name ?? '', label: name ?? '' }))
  return (
    <div className={css.filters}>
      <Select
        label="State"
        hideLabel
        bare
        options={STATES}
        value={state}
        onChange={(next) => onChange({ state: next === 'open' ? '' : next })}
      />
      <Select
        label="Tool"
        hideLabel
        bare
        all="Any tool"
        options={names([...cards.map((card) => toolOf(card).name), tool])}
        value={tool ?? ''}
        onChange={(next) => onChange({ tool: next })}
      />
      <Select
        label="Agent"
        hideLabel
        bare
        all="Any agent"
        options={names([...cards.map((card) => card.agent), agent])}
        value={agent ?? ''}
        onChange={(next) => onChange({ agent: next })}
      />
    </div>
  )
}

function Chosen({
  id,
  following,
  onNext,
}: {
  id: string
  following: Card | undefined
  onNext: (() => void) | undefined
}) {
  const card = useQuery(cardQuery(id))
  if (card.isError && !card.data) {
    return (
      <div className={css.padded}>
        <Problem error={card.error} retry={() => void card.refetch()} />
      </div>
    )
  }
  if (!card.data) return <SkeletonRows />
  return (
    <CardView
      key={`${id} ${card.data.round}`}
      card={card.data}
      next={
        onNext &&
        following && (
          <Button size="small" onPress={onNext}>
            Next: {toolOf(following).name}
          </Button>
        )
      }
    />
  )
}

function Nothing({ state, filtered }: { state: string; filtered: boolean }) {
  const me = useMe()
  if (filtered) return <Empty title="Nothing fits">No call of this tool and agent is in this state.</Empty>
  if (state !== 'open') return <Empty title="None yet">Nobody has decided on a call in this way.</Empty>
  return (
    <Empty icon={<CircleCheckBig />} title="Nothing waits" command="toolgate call write_file path=hello.txt text=hello">
      {may(me, 'approvals.read')
        ? 'When a call needs a person, it appears here at once. Try it with a tool that writes:'
        : 'You see your own calls here. To see and decide on those of others you need the role approver.'}
    </Empty>
  )
}
