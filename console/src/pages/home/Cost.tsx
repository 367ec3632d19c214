// What it cost at a glance, and what cost it.
import { useQuery } from '@tanstack/react-query'
import { Link, type LinkProps } from '@tanstack/react-router'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { isZero, shownAmount } from './amount'
import { Block } from './Block'
import block from './Block.module.css'
import css from './Cost.module.css'
import { home, type Top } from './queries'

const SPANS: Record<number, string> = { 1: 'Today', 7: '7 days', 30: '30 days' }

export function Cost() {
  const usage = useQuery(home.usage())
  if (usage.isError && !usage.data) {
    return (
      <Block title="Cost">
        <Problem error={usage.error} retry={() => void usage.refetch()} />
      </Block>
    )
  }
  if (!usage.data) {
    return (
      <Block title="Cost">
        <SkeletonRows rows={3} />
      </Block>
    )
  }
  const { spans, currency, tools, agents } = usage.data
  return (
    <Block title="Cost" note="by the day in UTC; calls that have ended, and questions of agents to their models">
      <dl className={css.spans}>
        {spans.map(({ days, calls, questions, cost }) => (
          <div key={days}>
            <dt>{SPANS[days]}</dt>
            <dd>
              <b>{shownAmount(cost)}</b> {currency}
              <span className={css.calls}>
                {counted(calls, 'call')}
                {questions > 0 && `, ${counted(questions, 'question')}`}
              </span>
            </dd>
          </div>
        ))}
      </dl>
      {tools.length === 0 ? (
        <p className={block.quiet}>
          Nothing was called in 30 days. What tools declare or report as cost is summed here, and what agents ask their
          models.
        </p>
      ) : (
        <>
          <Ranking title="Tools, 30 days" rows={tools} link={to.tool} nobody={nameless(tools)} />
          <Ranking title="Agents, 30 days" rows={agents} link={to.agent} nobody="people, without an agent" />
        </>
      )}
    </Block>
  )
}

/** What is in the row without a tool's name. */
function nameless(rows: readonly Top[]): string {
  const row = rows.find(({ name }) => !name)
  if (!row?.questions) return 'tools you may not know'
  return row.calls > 0 ? 'questions to models, and tools you may not know' : 'questions to models'
}

function counted(count: number, word: string): string {
  return `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`
}

function Ranking({
  title,
  rows,
  link,
  nobody,
}: {
  title: string
  rows: readonly Top[]
  link: (name: string) => LinkProps
  nobody: string
}) {
  return (
    <table className={css.ranking}>
      <thead>
        <tr>
          <th scope="col">{title}</th>
          <th scope="col">Calls</th>
          <th scope="col">Cost</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, calls, cost }) => (
          <tr key={name ?? nobody}>
            <td>
              {name ? (
                <Link {...link(name)}>
                  <code>{revealed(name)}</code>
                </Link>
              ) : (
                nobody
              )}
            </td>
            <td>{calls.toLocaleString('en')}</td>
            <td>{isZero(cost) ? '–' : shownAmount(cost)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
