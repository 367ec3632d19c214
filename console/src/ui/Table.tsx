// A list of any length: only the rows in sight are elements. Rows are links, so a new tab and the keyboard work as
// everywhere; the table scrolls with the page.
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react'
import css from './Table.module.css'

export interface Column<Row> {
  id: string
  label: string
  /** A CSS grid track: `120px`, `minmax(160px, 2fr)`. */
  width: string
  align?: 'right'
  /** Shown on a phone too. */
  phone?: boolean
  cell: (row: Row) => ReactNode
}

const ROW_PX = 40
const BEYOND = 8

export function Table<Row>({
  label,
  columns,
  rows,
  rowKey,
  rowLink,
  onOpen,
  more,
  total,
  rowPx = ROW_PX,
}: {
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  rowKey: (row: Row) => string
  /** Where a row leads; without it rows are not links. */
  rowLink?: (row: Row) => string
  /** Opens a row without leaving the page; new tabs still follow the link. */
  onOpen?: (row: Row) => void
  /** Called when the last rows come into sight. */
  more?: (() => void) | undefined
  total?: number
  /** How high a row is; for rows of two lines. */
  rowPx?: number
}) {
  const body = useRef<HTMLDivElement>(null)
  const [offset, setOffset] = useState(0)
  useLayoutEffect(() => {
    const measure = () => setOffset((body.current?.getBoundingClientRect().top ?? 0) + window.scrollY)
    measure()
    window.addEventListener('resize', measure)
    return () => window.removeEventListener('resize', measure)
  }, [])
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => rowPx,
    overscan: BEYOND,
    scrollMargin: offset,
  })
  const items = virtual.getVirtualItems()
  const lastShown = items.at(-1)?.index ?? -1
  useEffect(() => {
    if (more && lastShown >= rows.length - BEYOND) more()
  }, [lastShown, rows.length, more])

  const wide = columns.map(({ width }) => width).join(' ')
  const narrow = columns
    .filter(({ phone }) => phone)
    .map(({ width }, index) => (index === 0 ? 'minmax(0, 1fr)' : width.startsWith('minmax') ? 'auto' : width))
    .join(' ')
  const tracks = { '--wide': wide, '--narrow': narrow, '--row': `${rowPx}px` } as React.CSSProperties

  return (
    <div
      role="table"
      aria-label={label}
      aria-rowcount={(total ?? rows.length) + 1}
      className={css.table}
      style={tracks}
    >
      <div role="row" aria-rowindex={1} className={`${css.row} ${css.head}`}>
        {columns.map((column) => (
          <div key={column.id} role="columnheader" className={cellClass(column)}>
            {column.label}
          </div>
        ))}
      </div>
      <div ref={body} role="rowgroup" className={css.body} style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = rows[item.index]
          if (row === undefined) return null
          const href = rowLink?.(row)
          return (
            <div
              key={rowKey(row)}
              role="row"
              aria-rowindex={item.index + 2}
              className={href ? `${css.row} ${css.link}` : css.row}
              style={{ transform: `translateY(${item.start - offset}px)` }}
            >
              {columns.map((column, index) => (
                <div key={column.id} role="cell" className={cellClass(column)}>
                  {index === 0 && href ? (
                    <a
                      href={href}
                      className={css.open}
                      onClick={(event) => {
                        if (!onOpen || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return
                        event.preventDefault()
                        onOpen(row)
                      }}
                    >
                      {column.cell(row)}
                    </a>
                  ) : (
                    column.cell(row)
                  )}
                </div>
              ))}
            </div>
          )
        })}
      </div>
    </div>
  )
}

function cellClass<Row>({ align, phone }: Column<Row>): string {
  return [css.cell, align === 'right' ? css.right : '', phone ? '' : css.wide].join(' ')
}
