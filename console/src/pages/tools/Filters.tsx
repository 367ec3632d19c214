// What narrows the library down; every choice is in the address.

import { useQuery } from '@tanstack/react-query'
import { SlidersHorizontal, X } from 'lucide-react'
import { useState } from 'react'
import { Checkbox } from 'react-aria-components'
import { Button } from '../../ui/Button'
import { Select } from '../../ui/Field'
import { type Chosen, OFF_TOO, toolQueries } from './queries'
import css from './ToolsPage.module.css'

const RISKS = words('safe', 'sensitive', 'critical')
const CLASSES = [
  { id: 'none', label: 'stays inside' },
  { id: 'read_only', label: 'reads outside' },
  { id: 'write', label: 'changes things outside' },
]
const ORIGINS = [
  { id: 'code', label: 'ships with Toolgate' },
  { id: 'tenant', label: 'made here' },
  { id: 'upstream', label: 'MCP server' },
  { id: 'openapi', label: 'OpenAPI' },
  { id: 'bundle', label: 'bundle' },
]
const KINDS = words('api', 'code', 'data', 'search', 'utility')
const STATES = [{ id: 'deprecated', label: 'deprecated' }]
const ADMIN_STATES = [...STATES, { id: 'blocked', label: 'blocked' }, { id: OFF_TOO, label: 'active or switched off' }]

function words(...ids: readonly string[]) {
  return ids.map((id) => ({ id, label: id }))
}

export function Filters({
  chosen,
  choose,
  administers,
}: {
  chosen: Chosen
  choose: (change: Chosen) => void
  administers: boolean
}) {
  const [open, setOpen] = useState(false)
  const categories = useQuery(toolQueries.categories()).data?.items ?? []
  const offered = categories
    .filter(({ tools, path }) => tools > 0 || path === chosen.category)
    .map(({ path, tools }) => ({ id: path, label: `${path} (${tools})` }))
  const { q: _, ...filters } = chosen
  const count = Object.values(filters).filter(Boolean).length
  return (
    <div className={css.filters}>
      <div className={css.unfold}>
        <Button
          icon={<SlidersHorizontal aria-hidden="true" />}
          aria-expanded={open}
          aria-controls="tool-filters"
          onPress={() => setOpen(!open)}
        >
          {count === 0 ? 'Filters' : `Filters: ${count}`}
        </Button>
      </div>
      <div id="tool-filters" className={open ? `${css.choices} ${css.open}` : css.choices}>
        <Filter label="Category" all="Any category" options={offered} name="category" {...{ chosen, choose }} />
        <Filter label="Risk" all="Any risk" options={RISKS} name="risk" {...{ chosen, choose }} />
        <Filter label="Class" all="Any class" options={CLASSES} name="class" {...{ chosen, choose }} />
        <Filter label="Kind" all="Any kind" options={KINDS} name="kind" {...{ chosen, choose }} />
        <Filter label="Origin" all="Any origin" options={ORIGINS} name="origin" {...{ chosen, choose }} />
        <Filter
          label="State"
          all="Active"
          options={administers ? ADMIN_STATES : STATES}
          name="state"
          {...{ chosen, choose }}
        />
        <Checkbox
          className={css.check ?? ''}
          isSelected={chosen.deprecated === 'yes' || chosen.state === 'deprecated'}
          isDisabled={Boolean(chosen.state)}
          onChange={(on) => choose({ deprecated: on ? 'yes' : '' })}
        >
          <i aria-hidden="true" /> Deprecated too
        </Checkbox>
        {count > 0 && (
          <Button
            kind="quiet"
            size="small"
            icon={<X aria-hidden="true" />}
            onPress={() =>
              choose({ category: '', risk: '', class: '', kind: '', origin: '', state: '', deprecated: '' })
            }
          >
            Clear
          </Button>
        )}
      </div>
    </div>
  )
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
