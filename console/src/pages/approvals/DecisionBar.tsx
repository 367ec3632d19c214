// Decide. The bar stays where it is: reject at its left, approve at its right, whatever happens above it.
import { useQuery } from '@tanstack/react-query'
import { ArrowDown, Check, Pencil, Repeat, X } from 'lucide-react'
import { lazy, type ReactNode, type Ref, Suspense, useEffect, useRef, useState } from 'react'
import { asApiError } from '../../api/errors'
import { wantsStepUp } from '../../app/StepUp'
import { useMe } from '../../app/session'
import { useShortcuts } from '../../lib/shortcuts'
import { Button } from '../../ui/Button'
import { ApprovalBadge, CallBadge } from '../../ui/domain'
import { Problem } from '../../ui/Problem'
import { ConfirmDialog } from './ConfirmDialog'
import { type Card, endWords, isCritical } from './card'
import css from './DecisionBar.module.css'
import { AfterWords } from './facts'
import { type Decision, settingsQuery, useDecide } from './queries'
import { RejectDialog } from './RejectDialog'
import { type Look, refusals } from './refusals'
import { StandingDialog } from './StandingDialog'

// Only who edits loads the form.
const EditDialog = lazy(async () => ({ default: (await import('./EditDialog')).EditDialog }))

type Asking = 'reject' | 'edit' | 'standing'

export function DecisionBar({
  card,
  bar,
  look: seen,
  showUnseen,
  next,
}: {
  card: Card
  bar: Ref<HTMLDivElement>
  look: Pick<Look, 'fresh' | 'unseen'>
  showUnseen?: (() => void) | undefined
  next?: ReactNode
}) {
  const me = useMe()
  const settings = useQuery(settingsQuery())
  const decide = useDecide(card)
  const [asking, setAsking] = useState<Asking>()
  const [wasOpen] = useState(card.state === 'open')
  const problem = decide.error ? asApiError(decide.error) : undefined
  // Who gave up proving who they are may try again.
  const refused = problem?.status === 403 && !wantsStepUp(problem) ? problem.message : undefined
  const look: Look = { ...seen, refused, sending: decide.isPending }
  const off = {
    approve: refusals.approve(card, me, look),
    reject: refusals.reject(card, me, look),
    edit: refusals.edit(card, me, look),
    standing: refusals.standing(card, me, look, settings.data?.standing_grants_for_critical ?? false),
  }
  const done = { onSuccess: () => setAsking(undefined) }
  const [confirming, setConfirming] = useState<Decision>()
  // By button or key, as it is, edited or for similar ones too: a critical call asks once more.
  const approve = (how: Omit<Decision, 'decision'> = {}) => {
    const decision: Decision = { decision: 'approve', ...how }
    if (isCritical(card)) setConfirming(decision)
    else decide.mutate(decision, done)
  }

  useShortcuts({
    a: () => {
      if (!off.approve) approve()
    },
    r: () => !off.reject && setAsking('reject'),
    e: () => !off.edit && setAsking('edit'),
  })

  // Decided, by whomever: nothing is left to press.
  if (card.state !== 'open') {
    return (
      <div ref={bar} className={css.bar} data-testid="decision">
        <Ended card={card} me={me.principal} next={wasOpen && next} takesFocus={wasOpen} />
      </div>
    )
  }
  return (
    <div ref={bar} className={css.bar} data-testid="decision">
      <div className={css.says}>
        {problem && !asking ? (
          <Problem error={problem} />
        ) : (
          <p role="status" className={css.why}>
            {!seen.fresh && !decide.isPending && (off.approve ?? hint(card))}
            {off.approve && look.unseen === 'below' && showUnseen && (
              <Button size="small" onPress={showUnseen} icon={<ArrowDown aria-hidden="true" />}>
                Show the next part
              </Button>
            )}
          </p>
        )}
      </div>
      <div className={css.buttons}>
        <Button kind="danger" icon={<X />} disabledReason={off.reject} onPress={() => setAsking('reject')}>
          Reject…
        </Button>
        <Button icon={<Pencil />} disabledReason={off.edit} onPress={() => setAsking('edit')}>
          <span className={css.words}>Edit…</span>
        </Button>
        <span className={css.space} />
        <Button icon={<Repeat />} disabledReason={off.standing} onPress={() => setAsking('standing')}>
          <span className={css.words}>Allow similar…</span>
        </Button>
        <Button kind="primary" icon={<Check />} disabledReason={off.approve} onPress={() => approve()}>
          Approve
        </Button>
      </div>
      {asking === 'reject' && (
        <RejectDialog
          what={card.tool}
          failure={decide.error}
          sending={decide.isPending}
          onClose={() => setAsking(undefined)}
          onReject={(reason) => decide.mutate({ decision: 'reject', reason }, done)}
        />
      )}
      {asking === 'edit' && (
        <Suspense>
          <EditDialog
            card={card}
            failure={decide.error}
            sending={decide.isPending}
            onClose={() => setAsking(undefined)}
            onApprove={(input, reason) => approve({ input, reason })}
          />
        </Suspense>
      )}
      {asking === 'standing' && (
        <StandingDialog
          card={card}
          failure={decide.error}
          sending={decide.isPending}
          onClose={() => setAsking(undefined)}
          onApprove={(standing) => approve({ standing })}
        />
      )}
      {confirming && (
        <ConfirmDialog
          card={card}
          decision={confirming}
          onClose={() => setConfirming(undefined)}
          onApprove={() => {
            setConfirming(undefined)
            decide.mutate(confirming, done)
          }}
        />
      )}
    </div>
  )
}

function hint(card: Card): string {
  if (card.need > 1) return `${card.approved} of ${card.need} have approved.`
  return 'It runs at once when you approve.'
}

/** What was decided, by whom and when. */
function Ended({
  card,
  me,
  next,
  takesFocus,
}: {
  card: Card
  me: string
  next?: ReactNode
  /** It was decided on while it was looked at: the button that had the focus has gone. */
  takesFocus: boolean
}) {
  const line = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (takesFocus && document.activeElement === document.body) line.current?.focus({ preventScroll: true })
  }, [takesFocus])
  return (
    <div ref={line} className={css.ended} role="status" tabIndex={-1}>
      <ApprovalBadge state={card.state} />
      <p>
        <b>{endWords(card, me)}</b> <AfterWords card={card} />
      </p>
      {card.state === 'approved' && <CallBadge status={card.call_status} />}
      {next}
    </div>
  )
}
