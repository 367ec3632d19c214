// The parts of a card around its arguments: why a person is asked, what the call is given and reaches, who has voted.
import { Link } from '@tanstack/react-router'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge, type Tone } from '../../ui/Badge'
import { LabelBadge, VoteBadge } from '../../ui/domain'
import { Time } from '../../ui/Time'
import { Part } from './CardView'
import { type Card, demandsOf, personName, secretsOf } from './card'
import css from './facts.module.css'

const REASON: Record<string, readonly [words: string, tone: Tone]> = {
  write: ['class', 'egress'],
  requires_approval: ['tool', 'idle'],
  always_ask: ['tool', 'idle'],
  critical: ['risk', 'bad'],
  profile: ['profile', 'info'],
  policy: ['policy', 'info'],
  label: ['label rule', 'warn'],
  guardrail: ['guardrail', 'warn'],
}

export function Reasons({ card }: { card: Card }) {
  return (
    <Part title="Why a person is asked">
      <ul className={css.reasons}>
        {card.reasons.map(({ code, text, by }) => {
          const [words, tone] = REASON[code] ?? [code, 'idle']
          return (
            <li key={`${code} ${by ?? ''} ${text}`}>
              <span>
                <Badge tone={tone} shape={tone === 'bad' ? 'diamond' : 'none'}>
                  {words}
                </Badge>
              </span>
              <span>{revealed(text)}</span>
              {by && <code className={css.by}>{revealed(by)}</code>}
            </li>
          )
        })}
      </ul>
    </Part>
  )
}

const LABEL: Record<string, string> = {
  untrusted: 'from outside: somebody else may have written it',
  private: 'of a person or the company',
  sensitive: 'secret, or worth protecting like one',
}

/** Where the data came from, what it goes to, and as whom. */
export function Data({ card }: { card: Card }) {
  const secrets = secretsOf(card)
  return (
    <Part title="What it carries and reaches">
      <dl className={css.data}>
        <div>
          <dt>Reaches</dt>
          <dd>
            {card.reaches.length > 0 ? (
              <Codes items={card.reaches} />
            ) : card.egress_class === 'none' ? (
              'nothing outside this server'
            ) : (
              'no host is named in the definition; what it does there is up to the tool'
            )}
          </dd>
        </div>
        <div>
          <dt>Secrets</dt>
          <dd>
            {secrets.length === 0
              ? 'none'
              : secrets.map(({ name, scope, version }) => (
                  <span key={`${scope}/${name}`} className={css.secret}>
                    <code>{revealed(name)}</code> of the {scope || 'caller'}
                    {version && `, version ${version}`}
                  </span>
                ))}
          </dd>
        </div>
        <div>
          <dt>Labels</dt>
          <dd>
            {card.labels.length === 0
              ? 'none: nothing labelled was read before it'
              : card.labels.map((label) => (
                  <span key={label} className={css.label}>
                    <LabelBadge label={label} /> {LABEL[label] ?? ''}
                  </span>
                ))}
          </dd>
        </div>
        {(card.origins.length > 0 || card.labels.length > 0) && (
          <div>
            <dt>Read from</dt>
            <dd>{card.origins.length > 0 ? <Codes items={card.origins} /> : 'it is not known where'}</dd>
          </div>
        )}
      </dl>
    </Part>
  )
}

function Codes({ items }: { items: readonly string[] }) {
  return (
    <span className={css.codes}>
      {items.map((item) => (
        <code key={item}>{revealed(item)}</code>
      ))}
    </span>
  )
}

export function Votes({ card }: { card: Card }) {
  const demands = demandsOf(card).filter(({ from }) => from.length > 0)
  const note = card.need > 1 ? `${card.approved} of ${card.need}` : undefined
  return (
    <Part title="Who decides" note={note}>
      <p className={css.quiet}>
        {card.need > 1 ? `${card.need} different people must approve; one rejection rejects.` : 'One person decides.'}
        {demands.map(({ need, from }) => (
          <span key={from.join()}>
            {' '}
            {need > 1 ? `At least ${need}` : 'At least one'} of <Codes items={from} />.
          </span>
        ))}
        {card.borrows && (
          <>
            {' '}
            Whoever approves lends this call the permission <code>{revealed(card.borrows)}</code>, and must have it.
          </>
        )}
      </p>
      {card.votes.length > 0 && (
        <ul className={css.votes}>
          {card.votes.map(({ voter, voter_name, vote, counts, reason, at }) => (
            <li key={voter}>
              <span>
                <VoteBadge vote={vote} />
              </span>
              <span>
                {revealed(personName(voter_name, voter))} <Time at={at} />
                {counts === false && ', which does not count: they may no longer decide'}
                {reason && <q className={css.said}>{revealed(reason)}</q>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Part>
  )
}

/** What became of it, for whoever comes after. */
export function AfterWords({ card }: { card: Card }) {
  return (
    <>
      {card.decided_at && <Time at={card.decided_at} />}
      {card.decision_reason && card.state !== 'expired' && <q className={css.said}>{revealed(card.decision_reason)}</q>}{' '}
      <Link {...to.call(card.call_id)}>See what happened</Link>
    </>
  )
}
