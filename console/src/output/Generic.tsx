// Any JSON in its best form: text as text, rows as a table, members as a list of names and values.
import { isList, isObject, type Json, type JsonObject } from '../form/json'
import { counted, humanised } from '../form/words'
import { revealed } from '../lib/hidden'
import { Json as JsonTree } from '../ui/Json'
import { isScalar, safeJson, tableOf } from './kinds'
import css from './Output.module.css'
import { Picture, pictureOf } from './Picture'
import { TableView } from './TableView'
import { TextView } from './TextView'

const DEPTH_MAX = 3
const MEMBERS_MAX = 60
const ITEMS_MAX = 200
const SHORT = 120

export function Generic({
  value,
  label = 'Output',
  depth = 0,
}: {
  value: Json | undefined
  label?: string
  depth?: number
}) {
  if (value === undefined || value === null) return <p className={css.quiet}>{depth === 0 ? 'No output.' : 'null'}</p>
  if (typeof value === 'number' || typeof value === 'boolean') return <Big value={value} />
  if (typeof value === 'string') {
    const picture = pictureOf(value)
    return picture ? <Picture source={picture} label={label} /> : <TextView text={value} />
  }
  if (isList(value)) return <List value={value} label={label} depth={depth} />
  return isObject(value) ? <Members value={value} depth={depth} /> : null
}

function Big({ value }: { value: number | boolean }) {
  return (
    <p className={css.big}>
      {typeof value === 'boolean' ? (value ? 'Yes' : 'No') : value.toLocaleString('en', { maximumFractionDigits: 20 })}
    </p>
  )
}

function List({ value, label, depth }: { value: readonly Json[]; label: string; depth: number }) {
  if (value.length === 0) return <p className={css.quiet}>An empty list.</p>
  const table = tableOf(value)
  if (table) return <TableView table={table} label={label} fileName={label} />
  if (!value.every(isScalar) || depth > DEPTH_MAX) return <Tree value={value} />
  return (
    <ul className={css.items}>
      {value.slice(0, ITEMS_MAX).map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: items of a result never move
        <li key={index}>{scalarWords(item)}</li>
      ))}
      {value.length > ITEMS_MAX && (
        <li className={css.quiet}>{(value.length - ITEMS_MAX).toLocaleString('en')} more in the JSON</li>
      )}
    </ul>
  )
}

function Members({ value, depth }: { value: JsonObject; depth: number }) {
  const members = Object.entries(value)
  if (members.length === 0) return <p className={css.quiet}>An empty object.</p>
  if (depth > DEPTH_MAX || members.length > MEMBERS_MAX) return <Tree value={value} />
  const isShort = (inner: Json) =>
    isScalar(inner) &&
    !(typeof inner === 'string' && (inner.length > SHORT || inner.includes('\n') || pictureOf(inner)))
  const short = members.filter(([, inner]) => isShort(inner))
  const long = members.filter(([, inner]) => !isShort(inner))
  return (
    <div className={css.parts}>
      {short.length > 0 && (
        <dl className={css.facts}>
          {short.map(([name, inner]) => (
            <div key={name}>
              <dt title={name.slice(0, 200)}>{revealed(humanised(name.slice(0, 80)))}</dt>
              <dd>{typeof inner === 'string' && inner !== '' ? <TextView text={inner} /> : scalarWords(inner)}</dd>
            </div>
          ))}
        </dl>
      )}
      {long.map(([name, inner]) => (
        <section key={name} className={css.part}>
          <h3>{revealed(humanised(name.slice(0, 80)))}</h3>
          <Generic value={inner} label={humanised(name.slice(0, 80))} depth={depth + 1} />
        </section>
      ))}
    </div>
  )
}

function scalarWords(value: Json) {
  if (value === null) return <span className={css.quiet}>null</span>
  if (value === '') return <span className={css.quiet}>empty text</span>
  if (typeof value === 'boolean') return value ? 'Yes' : 'No'
  if (typeof value === 'number') return value.toLocaleString('en', { maximumFractionDigits: 20 })
  const words = typeof value === 'string' ? value : safeJson(value)
  return revealed(words.length > 2_000 ? `${words.slice(0, 2_000)}… (${counted(words.length, 'letter')})` : words)
}

function Tree({ value }: { value: Json }) {
  return <JsonTree value={value} openDepth={2} textAtOnce={2_000} />
}
