// One call that waits, or waited: everything that somebody who decides must know, and the bar to decide.
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { useSecond } from '../../lib/clock'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { CopyId } from '../../ui/CopyId'
import { ApprovalBadge, CallBadge, ClassBadge, RiskBadge } from '../../ui/domain'
import { Fact, Facts } from '../../ui/Facts'
import { Time } from '../../ui/Time'
import { Arguments, FOLD_FIRST, FOLD_STEP } from './Arguments'
import css from './CardView.module.css'
import { type Card, earlierWords, isCritical, leftWords, modeWords, personName, timeLeft, toolOf } from './card'
import { DecisionBar } from './DecisionBar'
import { Difference } from './Difference'
import { Foreseen } from './Foreseen'
import { Data, Reasons, Votes } from './facts'
import { useCoverage } from './useCoverage'

/** How long the buttons wait when a card appears: the second click of a double click was for the card before. */
const ARM_MS = 400

const INPUT_TITLE: Record<string, string> = { open: 'What will run', approved: 'What was approved' }

/** Key it by the card's id and round: another input is another thing to look at. */
export function CardView({ card, next }: { card: Card; next?: ReactNode }) {
  const box = useRef<HTMLDivElement>(null)
  const bar = useRef<HTMLDivElement>(null)
  const [limit, setLimit] = useState(FOLD_FIRST)
  const coverage = useCoverage(box, bar)
  const fresh = useFresh()
  const isFolded = card.input_shown.length > limit
  const { name, version } = toolOf(card)
  const verb = card.state === 'open' ? 'asks' : 'asked'
  return (
    <article className={css.card} aria-labelledby={`title-${card.id}`}>
      <header className={css.header}>
        <h2 id={`title-${card.id}`} className={css.title}>
          <Link {...to.tool(name)}>{revealed(name)}</Link>
          <span className={css.version}>@{version}</span>
        </h2>
        <ClassBadge egressClass={card.egress_class} />
        <RiskBadge risk={card.risk} />
        {card.state !== 'open' && <ApprovalBadge state={card.state} />}
        <p className={css.what}>{revealed(card.title)}</p>
      </header>

      <div className={css.who}>
        <p>
          {card.agent ? (
            <>
              <Link {...to.agent(card.agent)} className={css.mono}>
                {revealed(card.agent)}
              </Link>{' '}
              {verb} on behalf of <b>{revealed(card.asked_by)}</b>
            </>
          ) : (
            <>
              <b>{revealed(card.asked_by)}</b> {verb}
            </>
          )}
          , <Time at={card.created_at} />
        </p>
        {card.state === 'open' && <Deadline card={card} />}
      </div>

      <Reasons card={card} />

      <Part title={INPUT_TITLE[card.state] ?? 'What was asked for'}>
        {card.hidden_characters.length > 0 && (
          <p className={css.warning} role="note">
            It holds characters that cannot be seen: <code>{card.hidden_characters.join(', ')}</code>. They are marked.
          </p>
        )}
        {card.input === null || card.input === undefined ? (
          <p className={css.quiet}>The arguments are not kept any more; the log still has their digest.</p>
        ) : (
          <Arguments
            text={card.input_shown}
            limit={limit}
            box={box}
            onUnfold={(top) => {
              setLimit(limit + FOLD_STEP)
              coverage.openedAt(top)
            }}
          />
        )}
      </Part>

      <Foreseen card={card} />

      {card.proposed_input !== null && card.proposed_input !== undefined && (
        <Part title={`Edited by ${personName(card.edited_by_name, card.edited_by)}`} note={`Round ${card.round}`}>
          <Difference before={card.proposed_input} after={card.input} afterText={card.input_shown} />
        </Part>
      )}

      {card.earlier && (
        <Part
          title="Compared with the call before"
          note={
            <>
              {revealed(earlierWords(card, card.earlier))},{' '}
              <Link {...to.call(card.earlier.call_id)}>
                <Time at={card.earlier.at} />
              </Link>{' '}
              <CallBadge status={card.earlier.status} />
            </>
          }
        >
          {card.earlier.input === null || card.earlier.input === undefined ? (
            <p className={css.quiet}>Its arguments are not kept any more.</p>
          ) : (
            <Difference before={card.earlier.input} after={card.input} afterText={card.input_shown} />
          )}
        </Part>
      )}
      {!card.earlier && card.state === 'open' && (
        <Part title="Compared with the call before">
          <p className={css.quiet}>
            There is none: {revealed(card.agent ?? card.asked_by)} calls this tool for the first time.
          </p>
        </Part>
      )}

      <Data card={card} />
      <Votes card={card} />
      <Details card={card} />

      <DecisionBar
        card={card}
        bar={bar}
        next={next}
        look={{ fresh, unseen: isFolded ? 'folded' : coverage.unseenAt === undefined ? undefined : 'below' }}
        showUnseen={isCritical(card) ? coverage.showUnseen : undefined}
      />
    </article>
  )
}

export function Part({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  return (
    <section className={css.part}>
      <div className={css.head}>
        <h3>{title}</h3>
        {note && <div className={css.note}>{note}</div>}
      </div>
      {children}
    </section>
  )
}

function Details({ card }: { card: Card }) {
  return (
    <Part title="Details">
      <Facts>
        <Fact name="If nobody decides">{modeWords(card)}</Fact>
        <Fact name="Call">
          <Link {...to.call(card.call_id)} className={css.mono}>
            …{card.call_id.slice(-8)}
          </Link>{' '}
          <CallBadge status={card.call_status} />
        </Fact>
        <Fact name="Run">
          <Link {...to.run(card.run_id)} className={css.mono}>
            …{card.run_id.slice(-8)}
          </Link>
        </Fact>
        <Fact name="Answerable">
          {revealed(card.asked_by)} <CopyId id={card.principal} short what="principal" />
        </Fact>
        <Fact name="Approval">
          <CopyId id={card.id} what="approval" />
        </Fact>
        <Fact name="Input, SHA-256">
          <CopyId id={card.input_digest} what="digest of the input" />
        </Fact>
      </Facts>
    </Part>
  )
}

const SOON_MS = 10 * 60 * 1_000

function Deadline({ card }: { card: Card }) {
  const { ms, frozen } = timeLeft(card, useSecond())
  if (frozen) {
    return <span className={css.frozen}>Stands still while a kill switch holds it; {leftWords(ms)} will be left</span>
  }
  const title = new Date(card.expires_at).toISOString().slice(0, 19).replace('T', ' ')
  return (
    <time dateTime={card.expires_at} title={`${title} UTC`} className={ms < SOON_MS ? css.soon : css.left}>
      {ms === 0 ? 'over' : `${leftWords(ms)} left`}
    </time>
  )
}

function useFresh(): boolean {
  const [fresh, setFresh] = useState(true)
  useEffect(() => {
    const armed = setTimeout(() => setFresh(false), ARM_MS)
    return () => clearTimeout(armed)
  }, [])
  return fresh
}
