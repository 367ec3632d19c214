// What a run waits for: calls that a person must decide on, each with the way there.
import { Link } from '@tanstack/react-router'
import { Hourglass } from 'lucide-react'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Time } from '../../ui/Time'
import type { RunView } from './queries'
import css from './RunPage.module.css'

export function Waiting({ calls }: { calls: RunView['calls'] }) {
  const waiting = calls.filter(({ status, approval_id }) => status === 'pending' && approval_id)
  if (waiting.length === 0) return null
  return (
    <ul className={css.questions} aria-label="Waiting for approval">
      {waiting.map(({ id, approval_id, tool_key, created_at }) => (
        <li key={id}>
          <Hourglass aria-hidden="true" />
          <span className={css.question}>
            <b>
              <code>{revealed(tool_key)}</code> waits for an approval
            </b>
            <span className={css.quiet}>
              asked <Time at={created_at} />
            </span>
          </span>
          <Link {...to.approval(approval_id ?? '')} className={css.link}>
            Open the approval
          </Link>
        </li>
      ))}
    </ul>
  )
}
