// What a call would do, as its runner worked it out when people were asked: the difference, the command, the request.
import { useState } from 'react'
import { Button } from 'react-aria-components'
import { revealed } from '../../lib/hidden'
import { numbered } from '../../lib/numbered'
import { Fact } from '../../ui/Facts'
import { Time } from '../../ui/Time'
import { Part } from './CardView'
import type { Card } from './card'
import { Row } from './Difference'
import lineCss from './Difference.module.css'
import type { DiffLine } from './diff'
import css from './Foreseen.module.css'
import { type ForeseenPart, foreseenParts } from './foreseen'

/** More lines are shown when somebody wants them. */
const LINES_FIRST = 60

export function Foreseen({ card: { preview, state } }: { card: Card }) {
  if (!preview) return null
  const note = (
    <span>
      worked out <Time at={preview.at} />, when it was asked
    </span>
  )
  const isShown = preview.plan !== null && preview.plan !== undefined
  return (
    <Part title={state === 'open' ? 'What it would do' : 'What it would have done'} note={note}>
      {preview.stale && (
        <p className={css.stale} role="note">
          This is out of date: {revealed(preview.stale)}.
        </p>
      )}
      {preview.failed && (
        <p className={css.quiet}>It could not be worked out: {revealed(preview.failed)}. It may run all the same.</p>
      )}
      {isShown && <Plan plan={preview.plan} />}
      {preview.truncated && <p className={css.stale}>It is longer: the rest is not kept.</p>}
      {isShown && state === 'open' && (
        <p className={css.quiet}>Nothing was changed to find this out. What it works on may change until it runs.</p>
      )}
    </Part>
  )
}

function Plan({ plan }: { plan: unknown }) {
  const parts = foreseenParts(plan)
  const facts = parts.filter((part) => part.kind === 'fact')
  return (
    <>
      {parts.map((part) => part.kind !== 'fact' && <Block key={part.name} part={part} />)}
      {facts.length > 0 && (
        <dl className={css.facts}>
          {facts.map(({ name, text }) => (
            <Fact key={name} name={<code>{revealed(name)}</code>}>
              {revealed(text)}
            </Fact>
          ))}
        </dl>
      )}
    </>
  )
}

function Block({ part }: { part: Exclude<ForeseenPart, { kind: 'fact' }> }) {
  const [whole, setWhole] = useState(false)
  const lines = linesOf(part)
  const rest = lines.length - LINES_FIRST
  return (
    <figure className={css.block}>
      {part.name && (
        <figcaption>
          <code>{revealed(part.name)}</code>
        </figcaption>
      )}
      <div className={lineCss.lines} translate="no">
        {numbered(whole ? lines : lines.slice(0, LINES_FIRST)).map(({ item: line, at: index }) =>
          line.kind === 'gap' ? (
            <div key={index} className={css.gap}>
              {line.text}
            </div>
          ) : line.kind === 'plain' ? (
            <div key={index} className={css.plain}>
              {revealed(line.text)}
            </div>
          ) : (
            <Row key={index} line={line} />
          ),
        )}
        {!whole && rest > 0 && (
          <Button className={lineCss.skipped ?? ''} onPress={() => setWhole(true)}>
            {rest} more {rest === 1 ? 'line' : 'lines'}
          </Button>
        )}
      </div>
    </figure>
  )
}

type Line = DiffLine | { kind: 'gap'; text: string } | { kind: 'plain'; text: string }

function linesOf(part: Exclude<ForeseenPart, { kind: 'fact' }>): readonly Line[] {
  if (part.kind === 'difference') return part.lines
  const text = part.kind === 'command' ? part.words.join(' ') : part.text.replace(/\n$/, '')
  return text.split('\n').map((line) => ({ kind: 'plain', text: line }))
}
