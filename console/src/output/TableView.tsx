// Rows that sort by a click on their heading; only those in sight are elements. All of them go into the CSV.
import { useVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, ArrowUp, Download } from 'lucide-react'
import { useMemo, useRef, useState } from 'react'
import type { JsonObject } from '../form/json'
import { counted } from '../form/words'
import { revealed } from '../lib/hidden'
import { Button } from '../ui/Button'
import { saved } from './download'
import { type Column, cellWords, csvOf, sortedRows, type TableData } from './kinds'
import css from './Output.module.css'

const ROW_PX = 33
const BEYOND = 12
/** Fewer rows than this are all there, which lets the browser find text in them. */
const ALL_MAX = 60

interface Sort {
  key: string
  way: 'up' | 'down'
}

export function TableView({
  table,
  label,
  fileName = 'table',
}: {
  table: TableData
  label: string
  fileName?: string
}) {
  const [sort, setSort] = useState<Sort>()
  const { columns, left } = table
  const rows = useMemo(() => (sort ? sortedRows(table.rows, sort.key, sort.way) : table.rows), [table, sort])
  const turned = (key: string) =>
    setSort(sort?.key !== key ? { key, way: 'up' } : sort.way === 'up' ? { key, way: 'down' } : undefined)
  return (
    <div className={css.tableBox}>
      <div className={css.tableBar}>
        <span className={css.quiet}>
          {counted(table.rows.length, 'row')}
          {left.rows > 0 && `, ${left.rows.toLocaleString('en')} more only in the JSON`}
          {left.columns > 0 && `, ${counted(left.columns, 'column')} more only in the JSON`}
        </span>
        <Button
          size="small"
          kind="quiet"
          icon={<Download aria-hidden="true" />}
          onPress={() => saved(`${fileName}.csv`, 'text/csv', csvOf({ columns, rows }))}
        >
          CSV
        </Button>
      </div>
      <Rows columns={columns} rows={rows} label={label} sort={sort} onSort={turned} />
    </div>
  )
}

function Rows({
  columns,
  rows,
  label,
  sort,
  onSort,
}: {
  columns: readonly Column[]
  rows: readonly JsonObject[]
  label: string
  sort: Sort | undefined
  onSort: (key: string) => void
}) {
  const box = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: BEYOND,
    enabled: rows.length > ALL_MAX,
  })
  const items =
    rows.length > ALL_MAX ? virtual.getVirtualItems().map(({ index }) => index) : rows.map((_, index) => index)
  const before = (items[0] ?? 0) * ROW_PX
  const after = rows.length > ALL_MAX ? Math.max(virtual.getTotalSize() - ((items.at(-1) ?? -1) + 1) * ROW_PX, 0) : 0
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
    <div ref={box} className={css.rows} role="region" aria-label={label} tabIndex={0}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map(({ key, label: words, isNumeric }) => (
              <th
                key={key}
                aria-sort={sort?.key !== key ? 'none' : sort.way === 'up' ? 'ascending' : 'descending'}
                className={isNumeric ? css.right : undefined}
              >
                <button type="button" className={css.sort} onClick={() => onSort(key)}>
                  {revealed(words.slice(0, 80))}
                  {sort?.key === key &&
                    (sort.way === 'up' ? <ArrowUp aria-hidden="true" /> : <ArrowDown aria-hidden="true" />)}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <tr style={{ height: before }} />}
          {items.map((index) => {
            const row = rows[index]
            if (!row) return null
            return (
              <tr key={index} aria-rowindex={index + 2}>
                {columns.map(({ key, isNumeric }) => {
                  const words = cellWords(Object.hasOwn(row, key) ? row[key] : undefined)
                  return (
                    <td
                      key={key}
                      className={isNumeric ? css.right : undefined}
                      title={words.length > 40 ? words : undefined}
                    >
                      {words === '' ? <span className={css.quiet}>–</span> : revealed(words)}
                    </td>
                  )
                })}
              </tr>
            )
          })}
          {after > 0 && <tr style={{ height: after }} />}
        </tbody>
      </table>
    </div>
  )
}
