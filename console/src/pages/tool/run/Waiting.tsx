// A call that waits for a person. Who pressed Run may confirm it here, if they may: an ordinary decision on exactly
// what is shown.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, EyeOff } from 'lucide-react'
import type { Schemas } from '../../../api/client'
import { may, useMe } from '../../../app/session'
import { to } from '../../../paths'
import { Button } from '../../../ui/Button'
import { CopyId } from '../../../ui/CopyId'
import { Json } from '../../../ui/Json'
import { notify } from '../../../ui/Notices'
import { Problem } from '../../../ui/Problem'
import { Prose } from '../../../ui/Prose'
import { Time } from '../../../ui/Time'
import { act, toolQueries } from '../queries'
import { useWhyNotConfirm } from './confirming'
import css from './Run.module.css'

const WHOLE = 100

export function Waiting({ call, refetch }: { call: Schemas['CallDetails']; refetch: () => unknown }) {
  const me = useMe()
  const general = useWhyNotConfirm()
  const client = useQueryClient()
  const card = useQuery(toolQueries.card(call.id))
  const confirm = useMutation({
    mutationFn: (shown: Schemas['Card']) => act.confirm(shown.id, shown.input_digest),
    onSuccess: () => {
      notify('Confirmed. It runs.')
      void client.invalidateQueries({ queryKey: ['approvals'] })
      void refetch()
    },
  })
  if (card.isError) return <Problem error={card.error} retry={() => void card.refetch()} />
  // Another call's card is none of this one's.
  if (card.data?.call_id !== call.id)
    return <div className={css.waitingFacts} role="status" aria-label="Fetching the approval" />
  const shown = card.data
  const isOwn = shown.principal === me.principal && !shown.agent_id
  const reason = isOwn || may(me, 'approvals.decide') ? general : 'Only whoever asked confirms their own call.'
  return (
    <div className={css.card}>
      <p>
        <b>{reason === undefined ? 'Confirm what will run.' : 'It waits for a person.'}</b> Asked because{' '}
        {shown.reasons.map(({ text, code }, index) => (
          <span key={`${code}${text}`}>
            {index > 0 && (index === shown.reasons.length - 1 ? ' and ' : ', ')}
            <Prose text={text} />
          </span>
        ))}
        .
      </p>
      <dl className={css.exact}>
        <dt>Tool</dt>
        <dd>
          <code>{shown.tool}</code>
        </dd>
        {shown.reaches.length > 0 && (
          <>
            <dt>Reaches</dt>
            <dd>
              <code>{shown.reaches.join(', ')}</code>
            </dd>
          </>
        )}
        <dt>Input</dt>
        <dd>
          <Json value={shown.input} openDepth={WHOLE} />
        </dd>
        <dt>Expires</dt>
        <dd>
          <Time at={shown.expires_at} />
        </dd>
        <dt>Digest</dt>
        <dd>
          <CopyId id={shown.input_digest} short what="input digest" />
        </dd>
      </dl>
      {shown.hidden_characters.length > 0 && (
        <p className={css.warning}>
          <EyeOff aria-hidden="true" /> The input holds characters that cannot be seen:{' '}
          {shown.hidden_characters.join(', ')}.
        </p>
      )}
      {confirm.error && <Problem error={confirm.error} />}
      {reason !== undefined && <p className={css.quiet}>{reason}</p>}
      <div className={css.actions}>
        {reason === undefined && (
          <Button
            kind="primary"
            icon={<Check aria-hidden="true" />}
            isPending={confirm.isPending}
            onPress={() => confirm.mutate(shown)}
          >
            Confirm and run
          </Button>
        )}
        <Link {...to.approval(shown.id)}>See the approval</Link>
      </div>
    </div>
  )
}
