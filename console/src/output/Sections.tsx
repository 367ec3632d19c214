// A result by the sections that its tool names; what a section cannot show is shown as it is.
import { isObject, type Json, member } from '../form/json'
import { humanised } from '../form/words'
import { revealed } from '../lib/hidden'
import { Chart, Radar, Ranking, short } from './Charts'
import { Generic } from './Generic'
import { chartOf, isScalar, radarOf, rankingOf, tableOf } from './kinds'
import type { OutputSection } from './Output'
import css from './Output.module.css'
import { TableView } from './TableView'
import { TextView } from './TextView'

const LABEL_MAX = 120

export function Sections({ result, sections }: { result: Json; sections: readonly OutputSection[] }) {
  const keys = new Set(sections.map(({ key }) => key))
  const rest = isObject(result) ? Object.entries(result).filter(([name]) => !keys.has(name)) : []
  return (
    <div className={css.parts}>
      {sections.map((section) => (
        <section key={section.key} className={css.part}>
          <h3>{revealed(section.label.slice(0, LABEL_MAX))}</h3>
          <Section section={section} value={member(result, section.key)} />
        </section>
      ))}
      {rest.length > 0 && (
        <section className={css.part}>
          <h3>Further members</h3>
          <Generic value={Object.fromEntries(rest)} depth={1} />
        </section>
      )}
    </div>
  )
}

function Section({
  section: { key, label, type, config },
  value,
}: {
  section: OutputSection
  value: Json | undefined
}) {
  const asked = config as Json | undefined
  if (value === undefined) {
    return (
      <p className={css.quiet}>
        The output has no <code>{revealed(key)}</code>.
      </p>
    )
  }
  switch (type) {
    case 'summary':
      return <Summary value={value} />
    case 'table': {
      const table = tableOf(value, asked)
      if (table) return <TableView table={table} label={label} fileName={key} />
      break
    }
    case 'chart': {
      const data = chartOf(value, asked)
      if (data) return <Chart data={data} label={label} />
      break
    }
    case 'radar': {
      const data = radarOf(value, asked)
      if (data) return <Radar data={data} label={label} />
      break
    }
    case 'ranking': {
      const ranked = rankingOf(value, asked)
      if (ranked) return <Ranking ranked={ranked} />
      break
    }
  }
  return <Generic value={value} label={label} depth={1} />
}

const TILES_MAX = 24

/** A few numbers, large, each with its name; text as text. */
function Summary({ value }: { value: Json }) {
  if (typeof value === 'string') return <TextView text={value} />
  if (!isObject(value)) return <Generic value={value} depth={1} />
  const members = Object.entries(value)
  const tiles = members.filter(
    ([, inner]) => typeof inner === 'number' || (typeof inner === 'string' && inner.length <= 24),
  )
  const rest = members.filter(
    ([, inner]) => !(typeof inner === 'number' || (typeof inner === 'string' && inner.length <= 24)),
  )
  return (
    <>
      {tiles.length > 0 && (
        <dl className={css.tiles}>
          {tiles.slice(0, TILES_MAX).map(([name, inner]) => (
            <div key={name}>
              <dt>{revealed(humanised(name.slice(0, LABEL_MAX)))}</dt>
              <dd>
                {typeof inner === 'number' ? (
                  <span title={String(inner)}>{short(inner)}</span>
                ) : (
                  revealed(String(inner))
                )}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {rest.length > 0 && (rest.every(([, inner]) => isScalar(inner)) || tiles.length > 0) && (
        <Generic value={Object.fromEntries([...rest, ...tiles.slice(TILES_MAX)])} depth={1} />
      )}
      {rest.length > 0 && tiles.length === 0 && !rest.every(([, inner]) => isScalar(inner)) && (
        <Generic value={value} depth={1} />
      )}
    </>
  )
}
