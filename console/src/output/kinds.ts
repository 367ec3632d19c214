// What a result is, so that it can be shown: tables, charts, radars, rankings out of the shapes tools give them.
import { isList, isObject, type Json, type JsonObject } from '../form/json'

/** Beyond these a page would stand still or nobody would read on; what is left out is said, and the JSON holds all. */
export const ROWS_MAX = 100_000
export const COLUMNS_MAX = 40
export const COLUMN_SAMPLE = 1_000
export const POINTS_MAX = 20_000
export const BARS_MAX = 60
export const AXES_MAX = 24
export const SERIES_MAX = 8
export const CELL_LETTERS_MAX = 400

export interface Column {
  key: string
  label: string
  isNumeric: boolean
}

export interface TableData {
  columns: readonly Column[]
  rows: readonly JsonObject[]
  /** Rows and columns beyond the bounds. */
  left: { rows: number; columns: number }
}

const text = (value: Json | undefined): string | undefined => (typeof value === 'string' ? value : undefined)

export function isScalar(value: Json | undefined): value is string | number | boolean | null {
  return value === null || ['string', 'number', 'boolean'].includes(typeof value)
}

/** A list of objects, with the columns that its rows have, in the order in which they first appear. */
export function tableOf(value: Json | undefined, config?: Json): TableData | undefined {
  if (!isList(value) || value.length === 0) return undefined
  const asked = isObject(config) ? columnsAsked(config.columns) : undefined
  const rows = value.slice(0, ROWS_MAX).map((row) => (isObject(row) ? row : undefined))
  if (!rows.every((row) => row !== undefined)) return undefined
  const names = new Map<string, string>(asked)
  if (!asked) {
    for (const row of rows.slice(0, COLUMN_SAMPLE)) {
      for (const key of Object.keys(row)) names.set(key, key)
      if (names.size > COLUMNS_MAX * 4) break
    }
  }
  const columns = [...names]
    .slice(0, COLUMNS_MAX)
    .map(([key, label]) => ({ key, label, isNumeric: isNumeric(rows, key) }))
  return { columns, rows, left: { rows: value.length - rows.length, columns: names.size - columns.length } }
}

function columnsAsked(columns: Json | undefined): [string, string][] | undefined {
  if (!isList(columns) || columns.length === 0) return undefined
  return columns.flatMap((column): [string, string][] => {
    if (typeof column === 'string') return [[column, column]]
    const key = isObject(column) ? (text(column.key) ?? text(column.name)) : undefined
    return key === undefined || !isObject(column) ? [] : [[key, text(column.label) ?? text(column.title) ?? key]]
  })
}

function isNumeric(rows: readonly JsonObject[], key: string): boolean {
  let seen = 0
  for (const row of rows.slice(0, COLUMN_SAMPLE)) {
    const value = Object.hasOwn(row, key) ? row[key] : undefined
    if (value === undefined || value === null) continue
    if (typeof value !== 'number') return false
    seen += 1
  }
  return seen > 0
}

export function cellWords(value: Json | undefined): string {
  if (value === undefined || value === null) return ''
  const words = typeof value === 'string' ? value : typeof value === 'boolean' ? (value ? 'yes' : 'no') : written(value)
  return words.length > CELL_LETTERS_MAX ? `${words.slice(0, CELL_LETTERS_MAX)}…` : words
}

function written(value: Json): string {
  if (isList(value)) return value.length > 20 ? `${value.length} items` : safeJson(value)
  return safeJson(value)
}

/** JSON, or what it is where it nests deeper than the writer goes. */
export function safeJson(value: Json, space?: number): string {
  try {
    return JSON.stringify(value, null, space)
  } catch {
    return isList(value) ? 'a list, nested too deep to write' : 'an object, nested too deep to write'
  }
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })

/** The order of the rows by a column; what is empty comes last either way. */
export function sortedRows(rows: readonly JsonObject[], key: string, way: 'up' | 'down'): JsonObject[] {
  const sign = way === 'up' ? 1 : -1
  const held = (row: JsonObject) => (Object.hasOwn(row, key) ? (row[key] ?? null) : null)
  return [...rows].sort((left, right) => {
    const [a, b] = [held(left), held(right)]
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1
    if (typeof a === 'number' && typeof b === 'number') return sign * (a - b)
    return sign * collator.compare(cellWords(a), cellWords(b))
  })
}

/** Comma-separated, quoted where needed; a cell that a spreadsheet would run as a formula begins with an apostrophe. */
export function csvOf({ columns, rows }: Pick<TableData, 'columns' | 'rows'>): string {
  const cell = (value: Json | undefined) => {
    const words = value === undefined || value === null ? '' : typeof value === 'string' ? value : safeJson(value)
    const tame = typeof value === 'string' && /^[=+\-@\t\r]/.test(words) ? `'${words}` : words
    return /[",\r\n]/.test(tame) ? `"${tame.replaceAll('"', '""')}"` : tame
  }
  const lines = rows.map((row) =>
    columns.map(({ key }) => cell(Object.hasOwn(row, key) ? row[key] : undefined)).join(','),
  )
  return [columns.map(({ label }) => cell(label)).join(','), ...lines].join('\r\n')
}

export interface Series {
  name: string
  values: readonly (number | null)[]
}

export interface ChartData {
  x: { name: string; values: readonly (string | number)[]; kind: 'time' | 'number' | 'name' }
  series: readonly Series[]
  left: number
}

const TIME = /^\d{4}-\d\d(-\d\d)?([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?$/

/** Rows with one column to go along and numbers to draw, or a plain list of numbers. */
export function chartOf(value: Json | undefined, config?: Json): ChartData | undefined {
  const asked = isObject(config) ? config : {}
  if (isList(value) && value.length > 0 && value.every((item) => typeof item === 'number')) {
    const values = value.slice(0, POINTS_MAX).map(Number)
    const x = { name: '', values: values.map((_, index) => index + 1), kind: 'number' as const }
    return { x, series: [{ name: text(asked.label) ?? 'Value', values }], left: value.length - values.length }
  }
  if (isObject(value) && !Object.values(value).some((inner) => typeof inner !== 'number')) {
    const names = Object.keys(value)
    if (names.length === 0) return undefined
    return {
      x: { name: '', values: names, kind: 'name' },
      series: [{ name: 'Value', values: Object.values(value).map(Number) }],
      left: 0,
    }
  }
  const table = tableOf(columnsToRows(value) ?? value)
  if (!table) return undefined
  const keys = table.columns.map(({ key }) => key)
  const xKey = text(asked.x) ?? text(asked.x_key) ?? keys.find((key) => isAxis(table, key)) ?? keys[0]
  const wanted = [asked.y, asked.y_key, asked.series].flatMap((given): (Json | undefined)[] =>
    isList(given) ? [...given] : [given],
  )
  const named = wanted.flatMap((given) =>
    typeof given === 'string' ? [given] : isObject(given) ? [text(given.key) ?? ''] : [],
  )
  const numeric = table.columns.filter(({ key, isNumeric: isNumber }) => isNumber && key !== xKey).map(({ key }) => key)
  const chosen = (named.filter((key) => keys.includes(key)).length > 0 ? named : numeric).slice(0, SERIES_MAX)
  if (xKey === undefined || chosen.length === 0) return undefined
  const rows = table.rows.slice(0, POINTS_MAX)
  const raw = rows.map((row) => row[xKey] ?? null)
  const kind = raw.every((item) => typeof item === 'string' && TIME.test(item))
    ? 'time'
    : raw.every((item) => typeof item === 'number')
      ? 'number'
      : 'name'
  const values = raw.map((item) =>
    kind === 'time' ? Date.parse(String(item)) / 1000 : kind === 'number' ? Number(item) : cellWords(item),
  )
  if (kind === 'time' && values.some((item) => Number.isNaN(item))) return undefined
  return {
    x: { name: xKey, values, kind },
    series: chosen.map((name) => ({
      name,
      values: rows.map((row) => {
        const item = row[name]
        return typeof item === 'number' && Number.isFinite(item) ? item : null
      }),
    })),
    left: (isList(value) ? value.length : rows.length) - rows.length,
  }
}

/** `{labels: […], series: [{name, values}]}` and `{x: […], y: […]}` are rows, written by columns. */
function columnsToRows(value: Json | undefined): Json | undefined {
  if (!isObject(value)) return undefined
  const x = value.labels ?? value.x
  if (!isList(x)) return undefined
  const series: readonly Json[] = isList(value.series)
    ? value.series
    : isList(value.y)
      ? [{ name: 'y', values: value.y }]
      : []
  return x.map((label, index) =>
    Object.fromEntries([
      ['x', label],
      ...series.flatMap((one, number): [string, Json][] => {
        const values = isObject(one) ? (one.values ?? one.data) : undefined
        const name = isObject(one) ? (text(one.name) ?? text(one.label)) : undefined
        return isList(values) ? [[name ?? `Series ${number + 1}`, values[index] ?? null]] : []
      }),
    ]),
  )
}

function isAxis(table: TableData, key: string): boolean {
  return table.rows.slice(0, 20).every((row) => typeof row[key] === 'string')
}

export interface RadarData {
  axes: readonly string[]
  series: readonly { name: string; values: readonly number[] }[]
  max: number
}

/** Names with numbers: as an object, as rows with a name and numbers, or as `{axes, series}`. */
export function radarOf(value: Json | undefined, config?: Json): RadarData | undefined {
  const chart = chartOf(isObject(value) && isList(value.axes) ? { ...value, labels: value.axes } : value, config)
  if (!chart) return undefined
  const axes = chart.x.values.slice(0, AXES_MAX).map(String)
  if (axes.length < 3) return undefined
  const series = chart.series.map(({ name, values }) => ({
    name,
    values: values.slice(0, AXES_MAX).map((item) => item ?? 0),
  }))
  const said = isObject(config) && typeof config.max === 'number' ? config.max : 0
  return { axes, series, max: Math.max(said, ...series.flatMap(({ values }) => values), 0) || 1 }
}

export interface Ranked {
  name: string
  score: number | undefined
  note: string
}

/** In the order that the tool gave, which is the ranking; texts, or objects with a name and perhaps a score. */
export function rankingOf(value: Json | undefined, config?: Json): Ranked[] | undefined {
  const asked = isObject(config) ? config : {}
  if (isObject(value)) {
    const scored = Object.entries(value).filter((entry): entry is [string, number] => typeof entry[1] === 'number')
    if (scored.length === 0 || scored.length !== Object.keys(value).length) return undefined
    return scored.sort((left, right) => right[1] - left[1]).map(([name, score]) => ({ name, score, note: '' }))
  }
  if (!isList(value) || value.length === 0) return undefined
  return value.slice(0, ROWS_MAX).map((item, index) => {
    if (!isObject(item)) return { name: cellWords(item), score: undefined, note: '' }
    const nameKey = keyOf(item, asked.name ?? asked.label, ['name', 'title', 'label', 'option', 'item', 'id'], 'string')
    const scoreKey = keyOf(item, asked.score ?? asked.value, ['score', 'value', 'total', 'points', 'weight'], 'number')
    const rest = Object.entries(item).filter(
      ([key, inner]) => key !== nameKey && key !== scoreKey && key !== 'rank' && isScalar(inner),
    )
    const score = scoreKey === undefined ? undefined : item[scoreKey]
    return {
      name: nameKey === undefined ? `Item ${index + 1}` : cellWords(item[nameKey]),
      score: typeof score === 'number' ? score : undefined,
      note: rest
        .slice(0, 3)
        .map(([key, inner]) => `${key}: ${cellWords(inner).slice(0, 80)}`)
        .join(' · '),
    }
  })
}

function keyOf(
  item: JsonObject,
  asked: Json | undefined,
  usual: readonly string[],
  type: 'string' | 'number',
): string | undefined {
  if (typeof asked === 'string' && Object.hasOwn(item, asked)) return asked
  const found = usual.find((key) => Object.hasOwn(item, key) && typeof item[key] === type)
  return found ?? Object.keys(item).find((key) => typeof item[key] === type)
}
