// What waits for a person: calls to decide on, questions to answer, calls of which nobody knows how they ended.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { queries } from '../../api/queries'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { RiskBadge } from '../../ui/domain'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { Answer } from './Answer'
import { Block } from './Block'
import css from './Block.module.css'
import { home } from './queries'
import { Settle } from './Settle'

export function NeedsMe() {
  const me = useMe()
  const approvals = useQuery(home.approvals())
  const count = useQuery(queries.waitingApprovals()).data?.count ?? 0
  const questions = useQuery(home.questions())
  const unknown = useQuery(home.unknown())
  const decides = may(me, 'approvals.decide') || may(me, 'calls.confirm')
  const open = decides ? (approvals.data?.items ?? []) : []
  const asked = questions.data?.items ?? []
  const lost = may(me, 'calls.settle') ? (unknown.data?.items ?? []) : []
  const failed = [approvals, questions, unknown].find(({ isError, data }) => isError && !data)
  const isPending = approvals.isPending || questions.isPending || unknown.isPending
  return (
    <Block title="What needs you" note={count > open.length && <Link {...to.approvals()}>All {count} approvals</Link>}>
      {failed ? (
        <Problem error={failed.error} retry={() => void failed.refetch()} />
      ) : isPending ? (
        <SkeletonRows rows={3} />
      ) : open.length + asked.length + lost.length === 0 ? (
        <p className={css.quiet}>Nothing waits for you.</p>
      ) : (
        <ul className={css.rows}>
          {open.map((card) => (
            <li key={card.id}>
              <Link to="/approvals" search={{ id: card.id }} className={css.row}>
                <Badge tone="warn" shape="ring">
                  decide
                </Badge>
                <code className={css.name}>{revealed(card.tool.split('@')[0] ?? card.tool)}</code>
                <RiskBadge risk={card.risk} />
                <span className={css.more}>{revealed(card.agent ?? card.asked_by)}</span>
                <span className={css.when}>
                  <Time at={card.created_at} />
                </span>
              </Link>
            </li>
          ))}
          {asked.map((question) => (
            <li key={question.id}>
              <Answer question={question} />
            </li>
          ))}
          {lost.map((call) => (
            <li key={call.id}>
              <Settle call={call} />
            </li>
          ))}
        </ul>
      )}
    </Block>
  )
}
