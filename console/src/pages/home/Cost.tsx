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
    <Block title="Cost" note="by the day in UTC; calls that have ended">
      <dl className={css.spans}>
        {spans.map(({ days, calls, cost }) => (
          <div key={days}>
            <dt>{SPANS[days]}</dt>
            <dd>
              <b>{shownAmount(cost)}</b> {currency}
              <span className={css.calls}>
                {calls.toLocaleString('en')} {calls === 1 ? 'call' : 'calls'}
              </span>
            </dd>
          </div>
        ))}
      </dl>
      {tools.length === 0 ? (
        <p className={block.quiet}>
          Nothing was called in 30 days. What tools declare or report as cost is summed here.
        </p>
      ) : (
        <>
          <Ranking title="Tools, 30 days" rows={tools} link={to.tool} nobody="tools you may not know" />
          <Ranking title="Agents, 30 days" rows={agents} link={to.agent} nobody="people, without an agent" />
        </>
      )}
    </Block>
  )
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
