// The versions of a tool, and what changed between two of them: in words by class, and side by side.
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import type { Schemas } from '../../../api/client'
import { sentence } from '../../../api/errors'
import { revealed } from '../../../lib/hidden'
import { Badge, type Shape, type Tone } from '../../../ui/Badge'
import { Button } from '../../../ui/Button'
import { CopyId } from '../../../ui/CopyId'
import { ToolStateBadge } from '../../../ui/domain'
import { Select } from '../../../ui/Field'
import { Body } from '../../../ui/Page'
import { Problem } from '../../../ui/Problem'
import { Prose } from '../../../ui/Prose'
import { SkeletonRows } from '../../../ui/Skeleton'
import { Time } from '../../../ui/Time'
import type { Tool } from '../definition'
import { reference, toolQueries } from '../queries'
import { sideText } from './sides'
import css from './Versions.module.css'

// Only who compares loads the editor.
const SideBySide = lazy(async () => ({ default: (await import('./SideBySide')).SideBySide }))

type VersionRow = Schemas['VersionSummary']

const CHANGE: Readonly<Record<Schemas['ChangeClass'], readonly [tone: Tone, shape: Shape, words: string]>> = {
  breaking: ['bad', 'diamond', 'breaking'],
  narrowing: ['warn', 'diamond', 'narrower'],
  widening: ['info', 'dot', 'wider'],
  description: ['idle', 'ring', 'words only'],
  none: ['idle', 'none', 'no change'],
}
const HEAVIEST_FIRST = ['breaking', 'narrowing', 'widening', 'description', 'none'] as const

export interface Compared {
  from?: string | undefined
  to?: string | undefined
}

export function VersionsTab({
  tool,
  compared,
  compare,
  use,
  all,
}: {
  tool: Tool
  compared: Compared
  compare: (change: Compared) => void
  use: (version: string) => void
  all: boolean
}) {
  const versions = useQuery(toolQueries.versions(tool.name))
  if (versions.isError) {
    return (
      <Body narrow>
        <Problem error={versions.error} retry={() => void versions.refetch()} />
      </Body>
    )
  }
  if (!versions.data) return <SkeletonRows rows={4} />
  const rows = versions.data.items
  const newer = compared.to ?? rows[0]?.version
  const at = rows.findIndex(({ version }) => version === newer)
  const older = compared.from ?? rows[at + 1]?.version
  return (
    <div className={css.versions}>
      <div className={css.scroll}>
        <table className={css.plain} aria-label="Versions">
          <thead>
            <tr>
              <th scope="col">Version</th>
              <th scope="col">State</th>
              <th scope="col">Published</th>
              <th scope="col" className={css.wide}>
                By
              </th>
              <th scope="col" className={css.wide}>
                Definition
              </th>
              <th scope="col">
                <span className="visually-hidden">What to do</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row, index) => (
              <Row
                key={row.version}
                row={row}
                isShown={row.version === tool.version}
                before={rows[index + 1]?.version}
                {...{ compare, use }}
              />
            ))}
          </tbody>
        </table>
      </div>
      {older !== undefined && newer !== undefined ? (
        <Difference tool={tool} rows={rows} from={older} to={newer} compare={compare} all={all} />
      ) : (
        <p className={css.quiet}>This is the only version. A change of the definition publishes the next.</p>
      )}
    </div>
  )
}

function Row({
  row,
  isShown,
  before,
  compare,
  use,
}: {
  row: VersionRow
  isShown: boolean
  before: string | undefined
  compare: (change: Compared) => void
  use: (version: string) => void
}) {
  const notes = [
    row.message,
    row.replaced_by && `Use ${row.replaced_by}`,
    row.remove_by && `gone after ${row.remove_by}`,
  ]
  const note = notes.filter(Boolean).join('; ')
  return (
    <tr aria-current={isShown ? 'true' : undefined}>
      <th scope="row">
        <code>{row.version}</code>
      </th>
      <td>
        <ToolStateBadge state={row.state} />
        {note && <span className={css.rules}>{revealed(sentence(note))}</span>}
      </td>
      <td>
        <Time at={row.created_at} />
      </td>
      <td className={css.wide}>
        {(row as { published_by_name?: string | null }).published_by_name ?? row.published_by}
      </td>
      <td className={css.wide}>
        <CopyId id={row.definition_digest} short what="definition digest" />
      </td>
      <td className={css.rowActions}>
        {before !== undefined && (
          <Button
            kind="quiet"
            size="small"
            aria-label={`Compare ${row.version} with ${before}`}
            onPress={() => compare({ from: before, to: row.version })}
          >
            Compare
          </Button>
        )}
        {isShown ? (
          <span className={css.quiet}>shown</span>
        ) : (
          <Button kind="quiet" size="small" aria-label={`Show version ${row.version}`} onPress={() => use(row.version)}>
            Show
          </Button>
        )}
      </td>
    </tr>
  )
}

function Difference({
  tool,
  rows,
  from,
  to,
  compare,
  all,
}: {
  tool: Tool
  rows: readonly VersionRow[]
  from: string
  to: string
  compare: (change: Compared) => void
  all: boolean
}) {
  const difference = useQuery(toolQueries.difference(tool.name, from, to))
  const older = useQuery(toolQueries.one(reference(tool.name, from), all))
  const newer = useQuery(toolQueries.one(reference(tool.name, to), all))
  const options = rows.map(({ version }) => ({ id: version, label: version }))
  const [tone, shape, words] = CHANGE[difference.data?.class ?? 'none']
  return (
    <section className={css.difference} aria-label="What changed">
      <header className={css.differenceHead}>
        <h2>What changed</h2>
        <Select label="From" hideLabel options={options} value={from} onChange={(from) => compare({ from, to })} />
        <Select label="To" hideLabel options={options} value={to} onChange={(to) => compare({ from, to })} />
        {difference.data && (
          <Badge tone={tone} shape={shape}>
            {words}
          </Badge>
        )}
      </header>
      {difference.isError && <Problem error={difference.error} retry={() => void difference.refetch()} />}
      {difference.data && <Changes changes={difference.data.changes} />}
      {older.data?.version === from && newer.data?.version === to && (
        <Suspense fallback={<SkeletonRows rows={6} />}>
          <SideBySide
            key={`${from} ${to}`}
            before={sideText(older.data)}
            after={sideText(newer.data)}
            labels={[from, to]}
          />
        </Suspense>
      )}
    </section>
  )
}

function Changes({ changes }: { changes: readonly Schemas['Change'][] }) {
  if (changes.length === 0) return <p className={css.quiet}>Nothing differs.</p>
  const sorted = [...changes].sort(
    (one, other) => HEAVIEST_FIRST.indexOf(one.class) - HEAVIEST_FIRST.indexOf(other.class),
  )
  return (
    <ul className={css.changes}>
      {sorted.map(({ class: kind, pointer, message }) => {
        const [tone, shape, words] = CHANGE[kind]
        return (
          <li key={pointer + message}>
            <Badge tone={tone} shape={shape}>
              {words}
            </Badge>
            <div>
              <Prose text={sentence(message)} /> <code className={css.quiet}>{revealed(pointer)}</code>
            </div>
          </li>
        )
      })}
    </ul>
  )
}
