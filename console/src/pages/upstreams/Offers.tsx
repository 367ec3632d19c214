// What a server offers otherwise than it was accepted. Accepting names what was looked at; what is left stays as it was.

import { useNames } from '../../app/names'
import { revealed } from '../../lib/hidden'
import { Badge, type Tone } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { Section } from '../../ui/Section'
import { Time } from '../../ui/Time'
import { Difference } from '../approvals/Difference'
import { acceptUpstream, type Offer, refuseOffers, type Shown, useUpstreamChange } from './queries'
import css from './upstreams.module.css'

const CLASSES: Readonly<Record<Offer['class'], readonly [tone: Tone, until: string]>> = {
  description: ['info', 'Until it is accepted, what was accepted goes on.'],
  annotation: ['info', 'A hint turned. Until it is accepted, what was accepted goes on.'],
  widening: ['info', 'It takes or gives more. Until it is accepted, what was accepted goes on.'],
  narrowing: ['warn', 'It refuses what it took. Until it is accepted, it is not called.'],
  breaking: ['bad', 'Calls must be written otherwise. Until it is accepted, it is not called.'],
  rename: ['bad', 'A new name with the schema of a tool that is gone. Until it is accepted, neither is called.'],
}

const refusedWords = (kind: Offer['class']) =>
  kind === 'narrowing' || kind === 'breaking' || kind === 'rename'
    ? 'It was refused. Until the server offers something else, it is not called.'
    : 'It was refused. What was accepted goes on.'

const NOTE =
  'Nobody is shown a definition that was not accepted. A change that is refused waits for nobody until the server offers something else.'

const MOVED = 'Compare where it is now, below, with where you meant it to be.'

export function Offers({ upstream: { name, offers, seen, moved } }: { upstream: Shown }) {
  const accept = useUpstreamChange(acceptUpstream)
  const refuse = useUpstreamChange(refuseOffers)
  if (offers.length === 0 && !moved) return null
  const send = (tools?: string[]) => {
    if (seen) {
      accept.mutate(
        { name, seen, ...(tools ? { tools } : {}) },
        {
          onSuccess: ({ accepted }) => notify(accepted.length > 0 ? `Accepted: ${accepted.join(', ')}.` : 'Accepted.'),
        },
      )
    }
  }
  const turnDown = (tool: string) => {
    if (seen) refuse.mutate({ name, seen, tools: [tool] }, { onSuccess: () => notify(`Refused: ${tool}.`) })
  }
  const waits = offers.some((offer) => !offer.refused_by)
  const busy = accept.isPending || refuse.isPending
  const off = seen ? undefined : 'It cannot be told where it is: mend that first'
  return (
    <Section title="What changed">
      <p className={css.quiet}>
        <Prose text={offers.length > 0 ? NOTE : MOVED} />
      </p>
      {offers.map((offer) => (
        <Changed key={offer.tool} offer={offer}>
          <Button
            size="small"
            isPending={accept.isPending}
            isDisabled={busy}
            disabledReason={off}
            onPress={() => send([offer.tool])}
            aria-label={`Accept ${offer.tool}`}
          >
            {offer.refused_by ? 'Accept it all the same' : 'Accept'}
          </Button>
          {!offer.refused_by && (
            <Button
              size="small"
              isPending={refuse.isPending}
              isDisabled={busy}
              disabledReason={off}
              onPress={() => turnDown(offer.tool)}
              aria-label={`Refuse ${offer.tool}`}
            >
              Refuse
            </Button>
          )}
        </Changed>
      ))}
      {accept.isError && <Problem error={accept.error} />}
      {refuse.isError && <Problem error={refuse.error} />}
      {(waits || moved) && (
        <p className={css.bar}>
          <Button kind="primary" isPending={accept.isPending} disabledReason={off} onPress={() => send()}>
            {moved ? 'Accept where it is, and all it offers' : 'Accept all of it'}
          </Button>
        </p>
      )}
    </Section>
  )
}

function Changed({ offer, children }: { offer: Offer; children: React.ReactNode }) {
  const nameOf = useNames()
  const [tone, until] = CLASSES[offer.class]
  return (
    <article className={css.offer} aria-label={`Change of ${offer.tool}`}>
      <div className={css.bar}>
        <code>{revealed(offer.name)}</code>
        <Badge tone={tone} shape={tone === 'info' ? 'dot' : 'diamond'}>
          {offer.class}
        </Badge>
        {offer.replaces && <span className={css.quiet}>was {revealed(offer.replaces)}</span>}
        <span className={css.quiet}>
          seen <Time at={offer.seen_at} />
        </span>
        {offer.refused_by && offer.refused_at && (
          <span className={css.quiet}>
            refused by {revealed(nameOf(offer.refused_by))} <Time at={offer.refused_at} />
          </span>
        )}
        <span className={css.end}>{children}</span>
      </div>
      <p>{offer.refused_by ? refusedWords(offer.class) : until}</p>
      <ul className={css.changes}>
        {offer.difference.changes.map(({ pointer, message, class: kind }) => (
          <li key={`${pointer} ${message}`}>
            <span className={css.quiet}>{kind}</span>
            <span>
              <Prose text={message} /> <code>{revealed(pointer)}</code>
            </span>
          </li>
        ))}
      </ul>
      <Difference before={offer.before ?? {}} after={offer.after} />
    </article>
  )
}
