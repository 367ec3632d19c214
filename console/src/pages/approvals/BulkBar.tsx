// Deciding on several: each is decided by itself, and each is answered by itself.
import { useState } from 'react'
import type { Schemas } from '../../api/client'
import { useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { SUBMIT_KEYS, SubmitKey } from '../../lib/submitKey'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { ApprovalBadge } from '../../ui/domain'
import { Problem } from '../../ui/Problem'
import css from './BulkBar.module.css'
import { type Card, toolOf } from './card'
import dialogs from './dialogs.module.css'
import { useDecideAll } from './queries'
import { RejectDialog } from './RejectDialog'
import { bulkRefusals } from './refusals'

interface Answered {
  cards: readonly Card[]
  answers: readonly Schemas['BulkAnswer'][]
}

export function BulkBar({ cards, onClear }: { cards: readonly Card[]; onClear: () => void }) {
  const me = useMe()
  const decide = useDecideAll()
  const [asking, setAsking] = useState<'approve' | 'reject'>()
  // What the question is about stays what was shown when it was put, whatever changes behind it.
  const [shown, setShown] = useState<readonly Card[]>([])
  const ask = (what: 'approve' | 'reject') => {
    setShown(cards)
    setAsking(what)
  }
  const [answered, setAnswered] = useState<Answered>()
  const send = (decision: Schemas['Vote'], reason?: string) =>
    decide.mutate(
      {
        ids: shown.map(({ id }) => id),
        input_digests: Object.fromEntries(shown.map(({ id, input_digest }) => [id, input_digest])),
        decision,
        ...(reason ? { reason } : {}),
      },
      {
        onSuccess: ({ items }) => {
          setAsking(undefined)
          setAnswered({ cards: shown, answers: items })
          onClear()
        },
      },
    )
  const close = () => {
    decide.reset()
    setAsking(undefined)
  }
  return (
    <>
      {cards.length > 0 && (
        <div className={css.bar} role="toolbar" aria-label="For the chosen calls">
          <Button
            size="small"
            kind="danger"
            disabledReason={bulkRefusals.reject(cards, me)}
            onPress={() => ask('reject')}
          >
            Reject {cards.length}…
          </Button>
          <span className={css.count}>
            {cards.length} chosen{' '}
            <Button size="small" kind="quiet" onPress={onClear}>
              Clear
            </Button>
          </span>
          <Button
            size="small"
            kind="primary"
            disabledReason={bulkRefusals.approve(cards, me)}
            onPress={() => ask('approve')}
          >
            Approve {cards.length}…
          </Button>
          <p className={css.why} role="status">
            {bulkRefusals.approve(cards, me)}
          </p>
        </div>
      )}
      {asking === 'reject' && (
        <RejectDialog
          what={shown.length === 1 ? 'one call' : `${shown.length} calls`}
          failure={decide.error}
          sending={decide.isPending}
          onClose={close}
          onReject={(reason) => send('reject', reason)}
        />
      )}
      {asking === 'approve' && (
        <Dialog
          title={`Approve ${shown.length} calls of ${shown[0] ? toolOf(shown[0]).name : ''}`}
          isOpen
          onClose={close}
          actions={
            <>
              <Button onPress={close}>Cancel</Button>
              <Button
                kind="primary"
                disabledReason={decide.isPending ? 'It is being sent' : undefined}
                keys={SUBMIT_KEYS}
                onPress={() => send('approve')}
              >
                Approve all {shown.length}
              </Button>
            </>
          }
        >
          <SubmitKey act={() => !decide.isPending && send('approve')} />
          <p className={dialogs.words}>Each runs at once, with exactly these arguments.</p>
          <ul className={dialogs.list}>
            {shown.map((card) => (
              <li key={card.id}>
                <span>{revealed(card.agent ?? card.asked_by)}</span>
                <code>{revealed(card.input_shown)}</code>
              </li>
            ))}
          </ul>
          {decide.error && <Problem error={decide.error} />}
        </Dialog>
      )}
      {answered && <Answers answered={answered} onClose={() => setAnswered(undefined)} />}
    </>
  )
}

function Answers({ answered: { cards, answers }, onClose }: { answered: Answered; onClose: () => void }) {
  return (
    <Dialog
      title="What became of them"
      isOpen
      onClose={onClose}
      actions={
        <Button kind="primary" onPress={onClose}>
          Close
        </Button>
      }
    >
      <ul className={dialogs.list} data-testid="answers">
        {answers.map(({ id, state, refused }) => (
          <li key={id}>
            {refused ? (
              <Badge tone="bad" shape="diamond">
                not decided
              </Badge>
            ) : (
              <ApprovalBadge state={state ?? 'open'} />
            )}
            <code>{revealed(cards.find((card) => card.id === id)?.input_shown ?? id)}</code>
            {refused && <span>{revealed(refused)}</span>}
          </li>
        ))}
      </ul>
    </Dialog>
  )
}
