// How it came to the decision, step by step.
import { Check, Minus, UserRound, X } from 'lucide-react'
import type { ReactNode } from 'react'
import { revealed } from '../../lib/hidden'
import { Badge } from '../../ui/Badge'
import css from './Call.module.css'
import { type StepState, type TrailLine, trailOf } from './decision'
import type { Call } from './queries'

const MARKS: Record<StepState, readonly [icon: ReactNode, words: string]> = {
  passed: [<Check key="passed" />, 'passed'],
  asked: [<UserRound key="asked" />, 'asks a person'],
  stopped: [<X key="stopped" />, 'stopped here'],
  skipped: [<Minus key="skipped" />, 'not reached'],
}

export function DecisionTrail({ call }: { call: Call }) {
  return (
    <ol className={css.trail}>
      {trailOf(call).map(({ id, title, state, lines, micros }) => {
        const isWaiting = state === 'stopped' && (call.status === 'pending' || call.status === 'approved')
        const [icon, words] = isWaiting ? MARKS.asked : MARKS[state]
        return (
          <li key={id} data-state={isWaiting ? 'asked' : state}>
            <span className={css.mark} title={words}>
              {icon}
              <span className="visually-hidden">{words}</span>
            </span>
            <h3>{title}</h3>
            {micros !== undefined && <span className={css.micros}>{took(micros)}</span>}
            {lines.length > 0 && (
              <ul>
                {lines.map((line) => (
                  <li key={`${line.kind} ${line.by ?? ''} ${line.text}`}>
                    <Line line={line} />
                  </li>
                ))}
              </ul>
            )}
          </li>
        )
      })}
    </ol>
  )
}

function took(micros: number): string {
  return micros < 1_000 ? `${micros} µs` : `${(micros / 1_000).toFixed(1)} ms`
}

const KIND_WORDS: Record<Exclude<TrailLine['kind'], 'plain'>, string> = {
  policy: 'policy',
  label: 'label',
  guardrail: 'guardrail',
  logged: 'only logged',
  limit: 'limit',
}

function Line({ line: { kind, text, by } }: { line: TrailLine }) {
  return (
    <>
      {kind !== 'plain' && (
        <>
          <Badge tone={kind === 'logged' ? 'idle' : kind === 'limit' ? 'info' : 'warn'} shape="none">
            {KIND_WORDS[kind]}
          </Badge>{' '}
        </>
      )}
      {revealed(text)} {by && <code>{revealed(by)}</code>}
    </>
  )
}
