// A list of any length: only the rows in sight are elements. Rows are links, so a new tab and the keyboard work as
// everywhere; the table scrolls with the page.
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, type Ref, useEffect, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react'
import css from './Table.module.css'

export interface Column<Row> {
  id: string
  label: string
  /** A CSS grid track: `120px`, `minmax(160px, 2fr)`. */
  width: string
  align?: 'right'
  /** Shown on a phone too; in a table of `cards`, on the first line. */
  phone?: boolean
  /** Said before the value on a card, where no head says what it is. */
  word?: string
  cell: (row: Row) => ReactNode
}

export interface TableHandle {
  /** Brings a row under the head of the table, and the focus to its link. */
  reveal: (index: number) => void
}

const ROW_PX = 40
const HEAD_PX = 32
const BEYOND = 8
/** How often the row that was scrolled to is looked for, a frame each. */
const FRAMES_MAX = 60

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
  cards = false,
  handle,
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
  /** On a phone a row is as high as it must be to show every column: none is left out. */
  cards?: boolean
  handle?: Ref<TableHandle>
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
    scrollPaddingStart: HEAD_PX,
  })
  useImperativeHandle(handle, () => ({
    reveal: (index) => {
      virtual.scrollToIndex(index, { align: 'start' })
      focusRow(body.current, index)
    },
  }))
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
      className={cards ? `${css.table} ${css.cards}` : css.table}
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
              ref={cards ? virtual.measureElement : undefined}
              data-index={item.index}
              aria-rowindex={item.index + 2}
              className={href ? `${css.row} ${css.link}` : css.row}
              style={{ transform: `translateY(${item.start - offset}px)` }}
            >
              {columns.map((column, index) => (
                <div key={column.id} role="cell" className={cellClass(column)} data-word={column.word}>
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

/** The row may be an element only some frames after the page was scrolled to it. */
function focusRow(body: HTMLElement | null, index: number, frame = 0): void {
  const row = body?.querySelector(`[data-index="${index}"]`)
  if (row) row.querySelector<HTMLElement>('a[href]')?.focus({ preventScroll: true })
  else if (body && frame < FRAMES_MAX) requestAnimationFrame(() => focusRow(body, index, frame + 1))
}

/** There is nothing to say here; a card on a phone leaves it out. */
export function None() {
  return (
    <span className={css.none} data-none>
      —
    </span>
  )
}

function cellClass<Row>({ align, phone }: Column<Row>): string {
  return [css.cell, align === 'right' ? css.right : '', phone ? '' : css.wide].join(' ')
}
