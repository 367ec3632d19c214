// Search everything and act, from the keyboard: Ctrl K.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useEffect, useState } from 'react'
import { Autocomplete, Dialog, Input, Menu, MenuItem, Modal, ModalOverlay, SearchField } from 'react-aria-components'
import { api, taken } from '../api/client'
import { to } from '../paths'
import css from './Palette.module.css'
import { router } from './routes'
import { type Me, may } from './session'
import { chooseTheme } from './theme'

interface Entry {
  id: string
  words: string
  note: string
  mono?: boolean
  act: () => void
}

const FOUND_MAX = 20
// As many as fit any screen: the list never scrolls, more letters shorten it.
const SHOWN_MAX = 8

export function Palette({ isOpen, onClose, me }: { isOpen: boolean; onClose: () => void; me: Me }) {
  return (
    <ModalOverlay
      className={css.overlay ?? ''}
      isOpen={isOpen}
      onOpenChange={(open) => {
        if (!open) onClose()
      }}
      isDismissable
    >
      <Modal className={css.modal ?? ''}>
        <Dialog aria-label="Search and act" className={css.dialog ?? ''}>
          <Finder me={me} onClose={onClose} />
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}

function Finder({ me, onClose }: { me: Me; onClose: () => void }) {
  const [words, setWords] = useState('')
  const [entered, setEntered] = useState<string>()
  const asked = words.trim()
  const navigate = useNavigate()
  const found = useQuery({
    queryKey: ['search', asked],
    queryFn: ({ signal }) =>
      taken(api.GET('/api/v1/search', { params: { query: { q: asked, limit: FOUND_MAX } }, signal })),
    enabled: asked !== '',
  })
  const actions: readonly (Entry & { permission?: string })[] = [
    { id: 'home', words: 'Home', note: 'go', act: () => void navigate(to.home()) },
    { id: 'tools', words: 'Tools', note: 'go', act: () => void navigate(to.tools()) },
    { id: 'approvals', words: 'Approvals', note: 'go', act: () => void navigate(to.approvals()) },
    { id: 'calls', words: 'Calls', note: 'go', act: () => void navigate(to.calls()) },
    { id: 'failed', words: 'Failed calls', note: 'go', act: () => void navigate(to.calls({ status: 'failed' })) },
    {
      id: 'unknown',
      words: 'Calls with an unknown outcome',
      note: 'go',
      act: () => void navigate(to.calls({ status: 'outcome_unknown' })),
    },
    { id: 'runs', words: 'Runs', note: 'go', act: () => void navigate(to.runs()) },
    { id: 'agents', words: 'Agents', note: 'go', permission: 'agents.read', act: () => void navigate(to.agents()) },
    {
      id: 'workflows',
      words: 'Workflows',
      note: 'go',
      permission: 'tools.read',
      act: () => void navigate(to.workflows()),
    },
    {
      id: 'providers',
      words: 'Model providers',
      note: 'go',
      permission: 'agents.read',
      act: () => void navigate(to.providers()),
    },
    {
      id: 'upstreams',
      words: 'Servers behind the gate',
      note: 'go',
      permission: 'upstreams.edit',
      act: () => void navigate(to.upstreams()),
    },
    { id: 'skills', words: 'Skills', note: 'go', permission: 'tools.read', act: () => void navigate(to.skills()) },
    { id: 'people', words: 'People', note: 'go', permission: 'members.manage', act: () => void navigate(to.people()) },
    { id: 'account', words: 'Sign out, account', note: 'go', act: () => void navigate(to.account()) },
    { id: 'light', words: 'Theme: light', note: 'set', act: () => chooseTheme('light') },
    { id: 'dark', words: 'Theme: dark', note: 'set', act: () => chooseTheme('dark') },
    { id: 'system', words: 'Theme: as the system', note: 'set', act: () => chooseTheme('system') },
    { id: 'api', words: 'API reference', note: 'open', act: () => window.location.assign('/docs/api') },
  ]
  const fitting = actions.filter(
    ({ words: title, permission }) =>
      title.toLowerCase().includes(asked.toLowerCase()) && (permission === undefined || may(me, permission)),
  )
  const hits: Entry[] = (found.data?.items ?? []).map((hit) => ({
    id: `${hit.kind}:${hit.name}`,
    words: hit.name,
    note: hit.title ? `${hit.kind} · ${hit.title}` : hit.kind,
    mono: true,
    act: () => void router.navigate(hit.kind === 'agent' ? to.agent(hit.name) : to.tool(hit.name)),
  }))
  // A page or an action that begins as was typed is what was meant.
  const begins = ({ words: title }: Entry) => title.toLowerCase().startsWith(asked.toLowerCase())
  const entries = (
    asked === '' ? fitting : [...fitting.filter(begins), ...hits, ...fitting.filter((entry) => !begins(entry))]
  ).slice(0, SHOWN_MAX)
  const choose = (entry: Entry | undefined) => {
    if (entry === undefined) return
    onClose()
    entry.act()
  }
  const first = entries[0]
  const isSettled = !found.isFetching || (first !== undefined && begins(first))
  // Enter means what is marked, or the first while nothing is: it is marked a moment after it appears. Who is faster
  // than the answer means the answer.
  const chooseByEnter = (event: KeyboardEvent<HTMLElement>) => {
    if (event.key !== 'Enter' || event.nativeEvent.isComposing) return
    event.preventDefault()
    event.stopPropagation()
    const marked = document.getElementById(event.currentTarget.getAttribute('aria-activedescendant') ?? '')
    const entry = entries.find(({ id }) => id === marked?.dataset.key)
    if (entry !== undefined) choose(entry)
    else if (isSettled) choose(first)
    else setEntered(asked)
  }
  const isAwaited = isSettled && entered !== undefined && entered === asked
  // biome-ignore lint/correctness/useExhaustiveDependencies: it acts once, when what was asked for is there
  useEffect(() => {
    if (isAwaited) choose(first)
  }, [isAwaited])
  return (
    <Autocomplete inputValue={words} onInputChange={setWords}>
      <SearchField aria-label="Search everything" className={css.search ?? ''} autoFocus>
        <Input
          className={css.input ?? ''}
          placeholder="Find a tool or an agent, or say what to do"
          onKeyDownCapture={chooseByEnter}
        />
      </SearchField>
      <Menu
        items={entries}
        className={css.list ?? ''}
        aria-label="What was found"
        onAction={(id) => choose(entries.find((entry) => entry.id === id))}
        renderEmptyState={() => (
          <p className={css.none}>{found.isFetching ? 'Searching…' : `Nothing is called “${asked}”.`}</p>
        )}
      >
        {(entry) => (
          <MenuItem id={entry.id} textValue={entry.words} className={css.entry ?? ''}>
            {entry.mono ? <code>{entry.words}</code> : <span>{entry.words}</span>}
            <span className={css.note}>{entry.note}</span>
          </MenuItem>
        )}
      </Menu>
    </Autocomplete>
  )
}
