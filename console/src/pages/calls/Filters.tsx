// What narrows the history down; every choice is in the address.
import { useQuery } from '@tanstack/react-query'
import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { type Option, Select } from '../../ui/Field'
import { FilterBar } from '../../ui/FilterBar'
import { APPROVALS, type Chosen, ERRORS, FILTERS, REFUSED, SOURCES, STATUSES, said } from './chosen'
import { Day } from './Day'
import { callQueries } from './queries'
import { ToolField } from './ToolField'

interface Props {
  chosen: Chosen
  choose: (change: Chosen) => void
}

const options = (words: readonly string[]): Option[] => words.map((id) => ({ id, label: said(id) }))
const STATUS = STATUSES.map((id) => ({ id, label: id === REFUSED ? 'refused (denied, rejected)' : said(id) }))
const APPROVAL = APPROVALS.map((id) => ({
  id,
  label: id === 'not_required' ? 'not asked' : id === 'pending' ? 'waits' : id,
}))
const SOURCE = options(SOURCES)
const ERROR = ERRORS.map((id) => ({ id, label: id }))

export function Filters({ chosen, choose }: Props) {
  const me = useMe()
  const nameOf = useNames()
  const agents = useQuery(callQueries.agentNames(may(me, 'agents.read'))).data?.items ?? []
  const named = withChosen(
    agents.map(({ name, title }) => ({ id: name, label: title && title !== name ? `${name} (${title})` : name })),
    chosen.agent,
  )
  const whose = withChosen([{ id: me.principal, label: 'me' }], chosen.who, nameOf)
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
    <FilterBar count={count} onClear={() => choose(Object.fromEntries(FILTERS.map((name) => [name, ''])))}>
      <ToolField value={chosen.tool ?? ''} onChange={(tool) => choose({ tool })} />
      {filter('Status', 'status', 'Any status', STATUS)}
      {named.length > 0 && filter('Agent', 'agent', 'Any agent', named)}
      {filter('Approval', 'approval', 'Any approval', APPROVAL)}
      {filter('From', 'source', 'Any source', SOURCE)}
      {filter('Error', 'error', 'Any error', ERROR)}
      {may(me, 'calls.read.all') && filter('By', 'who', 'Anybody', whose)}
      <Day label="Since" value={chosen.since ?? ''} onChange={(since) => choose({ since })} />
      {chosen.until && (
        <Chip label={`No longer only until ${chosen.until}`} onPress={() => choose({ until: '' })}>
          until {chosen.until.slice(0, 10)}
        </Chip>
      )}
      {chosen.run && (
        <Chip label={`No longer only run ${chosen.run}`} onPress={() => choose({ run: '' })}>
          run …{chosen.run.slice(-8)}
        </Chip>
      )}
    </FilterBar>
  )
}

/** A filter that has no field of its own: it came with a link, and can be taken away. */
function Chip({ label, onPress, children }: { label: string; onPress: () => void; children: ReactNode }) {
  return (
    <Button size="small" icon={<X aria-hidden="true" />} aria-label={label} onPress={onPress}>
      {children}
    </Button>
  )
}

/** What is chosen can be seen, also where it is none of those that are known. */
function withChosen(
  known: readonly Option[],
  value: string | undefined,
  named: (value: string) => string = (same) => same,
): readonly Option[] {
  return !value || known.some(({ id }) => id === value) ? known : [...known, { id: value, label: named(value) }]
}
