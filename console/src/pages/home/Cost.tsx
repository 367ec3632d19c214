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
        {spans.map(({ days, calls, questions, unpriced, cost }) => (
          <div key={days}>
            <dt>{SPANS[days]}</dt>
            <dd>
              <b>{unpriced > 0 ? known({ cost, unpriced }) : shownAmount(cost)}</b>{' '}
              {unpriced > 0 && isZero(cost) ? '' : currency}
              <span className={css.calls}>
                {counted(calls, 'call')}
                {questions > 0 && `, ${counted(questions, 'question')}`}
              </span>
            </dd>
          </div>
        ))}
      </dl>
      {spans.some(({ unpriced }) => unpriced > 0) && (
        <p className={block.quiet}>
          Some models have no price, so what they cost is not known. Write it with <code>toolgate provider prices</code>{' '}
          or under <Link {...to.providers()}>Providers</Link>.
        </p>
      )}
      {tools.length === 0 ? (
        <p className={block.quiet}>
          Nothing was called in 30 days. What tools declare or report as cost is summed here, and what agents ask their
          models.
        </p>
      ) : (
        <>
          <Ranking title="Tools, 30 days" rows={tools} link={to.tool} />
          <Ranking title="Agents, 30 days" rows={agents} link={to.agent} />
        </>
      )}
    </Block>
  )
}

/** What is in a row without a name. */
const NAMELESS: Record<NonNullable<Top['unnamed']>, string> = {
  models: 'questions to models',
  hidden: 'tools you may not know',
  no_agent: 'people, without an agent',
}

/** A model without a price cost something all the same. */
function known({ cost, unpriced }: Pick<Top, 'cost' | 'unpriced'>): string {
  if (unpriced > 0) return isZero(cost) ? 'unknown' : `over ${shownAmount(cost)}`
  return isZero(cost) ? '–' : shownAmount(cost)
}

function counted(count: number, word: string): string {
  return `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`
}

function Ranking({ title, rows, link }: { title: string; rows: readonly Top[]; link: (name: string) => LinkProps }) {
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
        {rows.map(({ name, unnamed, calls, cost, unpriced }) => (
          <tr key={name ?? unnamed}>
            <td>
              {name ? (
                <Link {...link(name)}>
                  <code>{revealed(name)}</code>
                </Link>
              ) : (
                unnamed && NAMELESS[unnamed]
              )}
            </td>
            <td>{calls.toLocaleString('en')}</td>
            <td>{known({ cost, unpriced })}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
