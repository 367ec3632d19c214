// What narrows the history down; every choice is in the address.
import { useQuery } from '@tanstack/react-query'
import { CalendarSearch, SlidersHorizontal, X } from 'lucide-react'
import { useId, useState } from 'react'
import { may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { type Option, Select } from '../../ui/Field'
import css from './CallsPage.module.css'
import { APPROVALS, type Chosen, ERRORS, FILTERS, SOURCES, STATUSES, said } from './chosen'
import { callQueries } from './queries'
import { ToolField } from './ToolField'

interface Props {
  chosen: Chosen
  choose: (change: Chosen) => void
}

const options = (words: readonly string[]): Option[] => words.map((id) => ({ id, label: said(id) }))
const STATUS = options(STATUSES)
const APPROVAL = APPROVALS.map((id) => ({
  id,
  label: id === 'not_required' ? 'not asked' : id === 'pending' ? 'waits' : id,
}))
const SOURCE = options(SOURCES)
const ERROR = ERRORS.map((id) => ({ id, label: id }))

export function Filters({ chosen, choose }: Props) {
  const me = useMe()
  const id = useId()
  const [open, setOpen] = useState(false)
  const agents = useQuery(callQueries.agentNames(may(me, 'agents.read'))).data?.items ?? []
  const named = withChosen(
    agents.map(({ name, title }) => ({ id: name, label: title && title !== name ? `${name} (${title})` : name })),
    chosen.agent,
  )
  const whose = withChosen([{ id: me.principal, label: 'me' }], chosen.who)
  const count = FILTERS.filter((name) => chosen[name]).length
  const filter = (label: string, name: keyof Chosen, all: string, offered: readonly Option[]) => (
    <Select
      label={label}
      hideLabel
      all={all}
      options={offered}
      value={chosen[name] ?? ''}
      onChange={(value) => choose({ [name]: value })}
    />
  )
  return (
    <div className={css.filters}>
      <div className={css.unfold}>
        <Button
          icon={<SlidersHorizontal aria-hidden="true" />}
          aria-expanded={open}
          aria-controls={id}
          onPress={() => setOpen(!open)}
        >
          {count === 0 ? 'Filters' : `Filters: ${count}`}
        </Button>
      </div>
      <div id={id} className={open ? `${css.choices} ${css.open}` : css.choices}>
        <ToolField value={chosen.tool ?? ''} onChange={(tool) => choose({ tool })} />
        {filter('Status', 'status', 'Any status', STATUS)}
        {named.length > 0 && filter('Agent', 'agent', 'Any agent', named)}
        {filter('Approval', 'approval', 'Any approval', APPROVAL)}
        {filter('From', 'source', 'Any source', SOURCE)}
        {filter('Error', 'error', 'Any error', ERROR)}
        {may(me, 'calls.read.all') && filter('By', 'who', 'Anybody', whose)}
        <Day label="Since" value={chosen.since ?? ''} onChange={(since) => choose({ since })} />
        {chosen.run && (
          <Button
            size="small"
            icon={<X aria-hidden="true" />}
            aria-label={`No longer only run ${chosen.run}`}
            onPress={() => choose({ run: '' })}
          >
            run …{chosen.run.slice(-8)}
          </Button>
        )}
        {count > 0 && (
          <Button
            kind="quiet"
            size="small"
            icon={<X aria-hidden="true" />}
            onPress={() => choose(Object.fromEntries(FILTERS.map((name) => [name, ''])))}
          >
            Clear
          </Button>
        )}
      </div>
    </div>
  )
}

/** What is chosen can be seen, also where it is none of those that are known. */
function withChosen(known: readonly Option[], value: string | undefined): readonly Option[] {
  return !value || known.some(({ id }) => id === value) ? known : [...known, { id: value, label: value }]
}

/** The list is newest first, so it begins with the day that is chosen. */
export function JumpTo({ chosen, choose }: Props) {
  return <Day label="Jump to" isJump value={chosen.until ?? ''} onChange={(until) => choose({ until })} />
}

/** A day, by the browser's own field: it is keyboard-complete and speaks the person's language. */
function Day({
  label,
  value,
  onChange,
  isJump = false,
}: {
  label: string
  value: string
  onChange: (day: string) => void
  isJump?: boolean
}) {
  const id = useId()
  return (
    <div className={css.day} data-chosen={value !== '' || undefined}>
      <label htmlFor={id}>
        {isJump && <CalendarSearch aria-hidden="true" />} {label}
      </label>
      <input id={id} type="date" value={value.slice(0, 10)} onChange={(event) => onChange(event.target.value)} />
    </div>
  )
}
