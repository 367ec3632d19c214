// The foot of a call that somebody was asked about: how that stands, and the way to the card for who may decide.
import { Link } from '@tanstack/react-router'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import button from '../../ui/Button.module.css'
import { AnswerBadge } from '../../ui/domain'
import css from './Call.module.css'
import type { Call } from './queries'

export function Approval({ call }: { call: Call }) {
  const me = useMe()
  if (call.approval_status === 'not_required') return null
  const isWaiting = call.approval_status === 'pending' && call.status === 'pending'
  const by = call.approval_decided_by_name ?? call.approval_decided_by
  const mayDecide = may(me, 'approvals.decide')
  return (
    <section className={css.approval} data-waiting={isWaiting || undefined} aria-label="Approval">
      {isWaiting ? (
        <>
          <AnswerBadge status="pending" />
          <span className={css.quiet}>
            {mayDecide ? 'Look at the whole card before you decide.' : 'Somebody with the role approver decides.'}
          </span>
          {mayDecide && call.approval_id && (
            <Link {...to.approval(call.approval_id)} className={`${button.button} ${button.primary} ${css.decide}`}>
              Decide
            </Link>
          )}
        </>
      ) : (
        <>
          <AnswerBadge status={call.approval_status} isOver />
          <span className={css.reason}>
            {by && <>by {revealed(by)}</>}
            {call.approval_reason && <q>{revealed(call.approval_reason)}</q>}
          </span>
          {call.approval_id && (mayDecide || may(me, 'approvals.read')) && (
            <Link {...to.approval(call.approval_id)} className={css.decide}>
              See the card
            </Link>
          )}
        </>
      )}
    </section>
  )
}
