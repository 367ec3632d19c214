// What narrows the library down, and how many tools each choice leaves; every choice is in the address.
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Checkbox } from 'react-aria-components'
import { CLASS_OPTIONS, RISK_OPTIONS } from '../../ui/domain'
import { Select } from '../../ui/Field'
import { FilterBar } from '../../ui/FilterBar'
import { type Counts, countsOf, type Narrowing, widest } from './counts'
import { type Chosen, OFF_TOO, toolQueries } from './queries'
import css from './ToolsPage.module.css'

interface Option {
  id: string
  label: string
}

const ORIGINS: readonly Option[] = [
  { id: 'code', label: 'ships with Toolgate' },
  { id: 'tenant', label: 'made here' },
  { id: 'upstream', label: 'MCP server' },
  { id: 'openapi', label: 'OpenAPI' },
  { id: 'bundle', label: 'bundle' },
]
const KINDS: readonly Option[] = ['api', 'code', 'data', 'search', 'utility'].map((id) => ({ id, label: id }))
const STATES: readonly Option[] = [{ id: 'deprecated', label: 'deprecated' }]
const ADMIN_STATES = [...STATES, { id: 'blocked', label: 'blocked' }, { id: OFF_TOO, label: 'active or switched off' }]
const NOTHING: Chosen = { category: '', risk: '', class: '', kind: '', origin: '', state: '', deprecated: '' }

export function Filters({
  chosen,
  choose,
  administers,
}: {
  chosen: Chosen
  choose: (change: Chosen) => void
  administers: boolean
}) {
  const { counts, deprecated } = useCounts(chosen)
  const categories = useQuery(toolQueries.categories()).data?.items ?? []
  const offered = categories
    .filter(({ tools, path }) => path === chosen.category || (counts ? counts.category.has(path) : tools > 0))
    .map(({ path, tools }) => ({ id: path, label: counts ? path : `${path} (${tools})` }))
  const { q: _, ...filters } = chosen
  const choice = (name: Narrowing, options: readonly Option[]) => ({
    options: counted(options, counts?.[name]),
    name,
    chosen,
    choose,
  })
  return (
    <FilterBar count={Object.values(filters).filter(Boolean).length} onClear={() => choose(NOTHING)}>
      <Filter label="Category" all="Any category" {...choice('category', offered)} />
      <Filter label="Risk" all="Any risk" {...choice('risk', RISK_OPTIONS)} />
      <Filter label="Class" all="Any class" {...choice('class', CLASS_OPTIONS)} />
      <Filter label="Kind" all="Any kind" {...choice('kind', KINDS)} />
      <Filter label="Origin" all="Any origin" {...choice('origin', ORIGINS)} />
      <Filter
        label="State"
        all="Active"
        options={administers ? ADMIN_STATES : STATES}
        name="state"
        chosen={chosen}
        choose={choose}
      />
      <Checkbox
        className={css.check ?? ''}
        isSelected={chosen.deprecated === 'yes' || chosen.state === 'deprecated'}
        isDisabled={Boolean(chosen.state)}
        onChange={(on) => choose({ deprecated: on ? 'yes' : '' })}
      >
        <i aria-hidden="true" /> Deprecated too{deprecated === undefined ? '' : ` (${deprecated})`}
      </Checkbox>
    </FilterBar>
  )
}

/** Only over a library that is there as a whole: a part of it would be counted wrong. */
function useCounts(chosen: Chosen): { counts?: Counts; deprecated?: number } {
  const behind = useInfiniteQuery({
    ...toolQueries.list({ ...widest(chosen), ...(chosen.state ? {} : { deprecated: 'yes' }) }),
    placeholderData: () => undefined,
  })
  if (!behind.data || behind.hasNextPage) return {}
  const all = behind.data.pages.flatMap(({ items }) => items)
  if (chosen.state) return { counts: countsOf(all, chosen) }
  const shown = chosen.deprecated ? all : all.filter(({ state }) => state !== 'deprecated')
  return { counts: countsOf(shown, chosen), deprecated: all.filter(({ state }) => state === 'deprecated').length }
}

function counted(options: readonly Option[], counts: ReadonlyMap<string, number> | undefined): readonly Option[] {
  if (!counts) return options
  return options.map(({ id, label }) => ({ id, label: `${label} (${counts.get(id) ?? 0})` }))
}

function Filter({
  label,
  all,
  options,
  name,
  chosen,
  choose,
}: {
  label: string
  all: string
  options: readonly { id: string; label: string }[]
  name: Exclude<keyof Chosen, 'q' | 'deprecated'>
  chosen: Chosen
  choose: (change: Chosen) => void
}) {
  return (
    <Select
      label={label}
      hideLabel
      all={all}
      options={options}
      value={chosen[name] ?? ''}
      onChange={(value) => choose({ [name]: value })}
    />
  )
}
