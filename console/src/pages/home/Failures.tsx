import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { Block } from './Block'
import css from './Block.module.css'
import { home } from './queries'

export function Failures() {
  const failures = useQuery(home.failures())
  return (
    <Block title="Recent failures" note={<Link {...to.calls({ status: 'failed' })}>All failed calls</Link>}>
      {failures.isError && !failures.data ? (
        <Problem error={failures.error} retry={() => void failures.refetch()} />
      ) : !failures.data ? (
        <SkeletonRows rows={3} />
      ) : failures.data.items.length === 0 ? (
        <p className={css.quiet}>No call has failed.</p>
      ) : (
        <ul className={css.rows}>
          {failures.data.items.map((call) => (
            <li key={call.id}>
              <Link {...to.call(call.id)} className={css.row}>
                <Badge tone="bad" shape="diamond">
                  {call.error_code ?? 'failed'}
                </Badge>
                <code className={css.name}>{revealed(call.tool_key)}</code>
                <span className={css.more}>{revealed(call.agent_name ?? '')}</span>
                <span className={css.when}>
                  <Time at={call.created_at} />
                </span>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Block>
  )
}
