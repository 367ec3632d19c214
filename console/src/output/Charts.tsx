// Numbers as pictures: each with the same numbers as a table, which a screen reader reads and anybody can open.
import { lazy, Suspense, useId } from 'react'
import { useTheme } from '../app/theme'
import type { Json, JsonObject } from '../form/json'
import { revealed } from '../lib/hidden'
import { numbered } from '../lib/numbered'
import { BARS_MAX, type ChartData, type RadarData, type Ranked, tableOf } from './kinds'
import css from './Output.module.css'
import { TableView } from './TableView'

const TimeChart = lazy(async () => ({ default: (await import('./TimeChart')).TimeChart }))

export const TONES = [
  'var(--tone-1)',
  'var(--tone-2)',
  'var(--tone-3)',
  'var(--tone-4)',
  'var(--tone-5)',
  'var(--tone-6)',
  'var(--tone-7)',
  'var(--tone-8)',
] as const

const compact = new Intl.NumberFormat('en', { maximumFractionDigits: 2, notation: 'compact' })
export const short = (value: number) =>
  Math.abs(value) < 10_000 ? String(Number(value.toFixed(2))) : compact.format(value)

export function Chart({ data, label }: { data: ChartData; label: string }) {
  // A canvas reads its colours once: another theme draws anew.
  const theme = useTheme()
  const rows: JsonObject[] = data.x.values.map((x, index) =>
    Object.fromEntries<Json>([
      [data.x.name || 'Name', data.x.kind === 'time' ? new Date(Number(x) * 1000).toISOString() : x],
      ...data.series.map(({ name, values }): [string, Json] => [name, values[index] ?? null]),
    ]),
  )
  return (
    <figure className={css.figure}>
      <Legend names={data.series.map(({ name }) => name)} />
      {data.x.kind === 'name' ? (
        <Bars data={data} />
      ) : (
        <Suspense fallback={<div className={css.chart} />}>
          <TimeChart key={theme} data={data} label={label} />
        </Suspense>
      )}
      {data.left > 0 && <p className={css.quiet}>{data.left.toLocaleString('en')} points more only in the JSON.</p>}
      <Numbers rows={rows} label={label} />
    </figure>
  )
}

function Legend({ names }: { names: readonly string[] }) {
  if (names.length < 2) return null
  return (
    <ul className={css.legend}>
      {names.map((name, index) => (
        <li key={name}>
          <i style={{ background: TONES[index] }} aria-hidden="true" />
          {revealed(name.slice(0, 60))}
        </li>
      ))}
    </ul>
  )
}

function Numbers({ rows, label }: { rows: readonly JsonObject[]; label: string }) {
  const table = tableOf(rows)
  if (!table) return null
  return (
    <details className={css.numbers}>
      <summary>The numbers as a table</summary>
      <TableView table={table} label={`${label}: the numbers`} fileName={label} />
    </details>
  )
}

/** Bars lie, so that their names can be read. */
function Bars({ data }: { data: ChartData }) {
  const all = data.series.flatMap(({ values }) => values.map((value) => value ?? 0))
  const max = Math.max(...all, 0)
  const min = Math.min(...all, 0)
  const span = max - min || 1
  const names = data.x.values.slice(0, BARS_MAX)
  return (
    <>
      <div className={css.bars} aria-hidden="true">
        {numbered(names).map(({ item: name, at: index }) => (
          <div key={index} className={css.barRow}>
            <span className={css.barName} title={String(name).slice(0, 200)}>
              {revealed(String(name).slice(0, 60))}
            </span>
            <div className={css.barTrack}>
              {data.series.map(({ name: series, values }, at) => {
                const value = values[index] ?? 0
                return (
                  <div key={series} className={css.barLine}>
                    <i
                      style={{
                        background: TONES[at],
                        marginLeft: `${((Math.min(value, 0) - min) / span) * 100}%`,
                        width: `${(Math.abs(value) / span) * 100}%`,
                      }}
                    />
                  </div>
                )
              })}
            </div>
            <span className={css.barValue}>
              {data.series.map(({ values }) => (values[index] == null ? '–' : short(values[index] ?? 0))).join(' / ')}
            </span>
          </div>
        ))}
      </div>
      {data.x.values.length > names.length && (
        <p className={css.quiet}>{data.x.values.length - names.length} more in the table.</p>
      )}
    </>
  )
}

const SIZE = 250
const RADIUS = 104

export function Radar({ data, label }: { data: RadarData; label: string }) {
  const id = useId()
  const angle = (index: number) => (index / data.axes.length) * 2 * Math.PI - Math.PI / 2
  const point = (index: number, share: number) => [
    SIZE / 2 + Math.cos(angle(index)) * RADIUS * share,
    SIZE / 2 + Math.sin(angle(index)) * RADIUS * share,
  ]
  const ring = (shares: readonly number[]) =>
    shares
      .map((share, index) =>
        point(index, share)
          .map((n) => n.toFixed(1))
          .join(','),
      )
      .join(' ')
  const rows = data.axes.map((axis, index) =>
    Object.fromEntries<Json>([
      ['Axis', axis],
      ...data.series.map(({ name, values }): [string, Json] => [name, values[index] ?? 0]),
    ]),
  )
  return (
    <figure className={css.figure}>
      <Legend names={data.series.map(({ name }) => name)} />
      <svg viewBox={`-70 0 ${SIZE + 140} ${SIZE}`} className={css.radar} role="img" aria-labelledby={id}>
        <title
          id={id}
        >{`${label}: ${data.axes.length} axes, each from 0 to ${short(data.max)}; the numbers are in the table below`}</title>
        {[0.25, 0.5, 0.75, 1].map((share) => (
          <polygon key={share} points={ring(data.axes.map(() => share))} className={css.web} />
        ))}
        {numbered(data.axes).map(({ item: axis, at: index }) => {
          const [x = 0, y = 0] = point(index, 1)
          const [labelX = 0, labelY = 0] = point(index, 1.12)
          const side = Math.cos(angle(index))
          return (
            <g key={index}>
              <line x1={SIZE / 2} y1={SIZE / 2} x2={x} y2={y} className={css.web} />
              <text
                x={labelX}
                y={labelY + 4}
                textAnchor={Math.abs(side) < 0.2 ? 'middle' : side > 0 ? 'start' : 'end'}
                className={css.axis}
              >
                {axis.length > 18 ? `${axis.slice(0, 17)}…` : axis}
              </text>
            </g>
          )
        })}
        {data.series.map(({ name, values }, index) => (
          <polygon
            key={name}
            points={ring(values.map((value) => Math.min(Math.max(value / data.max, 0), 1)))}
            style={{ stroke: TONES[index], fill: TONES[index] }}
            className={css.shape}
          />
        ))}
      </svg>
      <Numbers rows={rows} label={label} />
    </figure>
  )
}

const RANKS_SHOWN = 50

export function Ranking({ ranked }: { ranked: readonly Ranked[] }) {
  const max = Math.max(...ranked.map(({ score }) => Math.abs(score ?? 0)), 0) || 1
  return (
    <ol className={css.ranking}>
      {numbered(ranked.slice(0, RANKS_SHOWN)).map(({ item: { name, score, note }, at: index }) => (
        <li key={index}>
          <span className={css.rank}>{index + 1}</span>
          <span className={css.rankName}>
            {revealed(name)}
            {note !== '' && <small>{revealed(note)}</small>}
          </span>
          {score !== undefined && (
            <>
              <span className={css.rankBar} aria-hidden="true">
                <i style={{ width: `${(Math.max(score, 0) / max) * 100}%` }} />
              </span>
              <span className={css.rankScore}>{short(score)}</span>
            </>
          )}
        </li>
      ))}
      {ranked.length > RANKS_SHOWN && <li className={css.quiet}>{ranked.length - RANKS_SHOWN} more in the JSON</li>}
    </ol>
  )
}
