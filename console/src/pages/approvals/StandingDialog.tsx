// Approve this call, and calls like it for a while: what must hold of the arguments, how often, how long.
import { useState } from 'react'
import { asApiError } from '../../api/errors'
import { revealed } from '../../lib/hidden'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Checkbox } from '../../ui/Checkbox'
import { Drawer } from '../../ui/Dialog'
import { Select, TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import type { Card } from './card'
import {
  type Choice,
  type ConstraintKind,
  constraintOf,
  constraintWords,
  isExact,
  kindsFor,
  type Leaf,
  leavesOf,
  suggestion,
} from './constraints'
import css from './dialogs.module.css'
import type { Decision } from './queries'

const TIMES = [
  { id: '900', label: '15 minutes' },
  { id: '3600', label: 'an hour' },
  { id: '28800', label: '8 hours' },
  { id: '86400', label: 'a day' },
] as const
const USES_MAX = 1_000

export function StandingDialog({
  card,
  failure,
  sending,
  onClose,
  onApprove,
}: {
  card: Card
  failure: unknown
  sending: boolean
  onClose: () => void
  onApprove: (standing: NonNullable<Decision['standing']>) => void
}) {
  const [leaves] = useState(() => leavesOf(card.input))
  // Nothing is loosened by default: every value must be what it is now, and a person takes demands away.
  const [choices, setChoices] = useState<readonly Choice[]>(() =>
    leaves.map((leaf) => ({ pointer: leaf.pointer, kind: 'const', text: suggestion(leaf, 'const') })),
  )
  const [time, setTime] = useState<string>('3600')
  const [uses, setUses] = useState('10')
  const [inRun, setInRun] = useState(false)
  const exact = isExact(choices, leaves)
  const demands = choices.map((choice) => constraintOf(choice, leaves)).filter((one) => one !== undefined)
  const constraints = exact ? [{ pointer: '', const: card.input }] : demands
  const count = Number(uses)
  const off = sending
    ? 'It is being sent'
    : choices.length === 0
      ? 'Say at least one thing that must hold'
      : demands.length < choices.length
        ? 'One demand is empty'
        : !Number.isInteger(count) || count < 1 || count > USES_MAX
          ? `Allow 1 to ${USES_MAX} calls`
          : undefined
  const change = (leaf: Leaf, next: Partial<Choice> | undefined) => {
    const others = choices.filter(({ pointer }) => pointer !== leaf.pointer)
    const before = choices.find(({ pointer }) => pointer === leaf.pointer)
    const all = next
      ? [...others, { pointer: leaf.pointer, kind: 'const' as const, text: '', ...before, ...next }]
      : others
    setChoices(leaves.flatMap(({ pointer }) => all.filter((choice) => choice.pointer === pointer)))
  }
  const send = () => {
    if (off !== undefined) return
    onApprove({ constraints, uses: count, expires_s: Number(time), ...(inRun ? { run_id: card.run_id } : {}) })
  }
  useSubmitKey(send, true)
  const who = card.agent ?? card.asked_by
  const timeWords = TIMES.find(({ id }) => id === time)?.label ?? ''
  return (
    <Drawer title={`Allow calls like this of ${card.tool}`} isOpen onClose={onClose}>
      <div className={css.drawer}>
        <div className={css.top}>
          <h2>Approve, and allow similar calls</h2>
          <p>Calls that fit run without asking anybody, until the grant is used up, over, or taken back.</p>
        </div>
        <div className={css.body}>
          <fieldset className={css.plain}>
            <legend className={css.heading}>What must hold of the arguments</legend>
            {leaves.map((leaf) => (
              <Demand
                key={leaf.pointer}
                leaf={leaf}
                choice={choices.find(({ pointer }) => pointer === leaf.pointer)}
                onChange={(next) => change(leaf, next)}
              />
            ))}
          </fieldset>
          <div className={css.pair}>
            <Select label="For how long" options={TIMES} value={time} onChange={setTime} />
            <TextField label="How many calls" type="number" value={uses} onChange={setUses} />
          </div>
          <Checkbox isSelected={inRun} onChange={setInRun}>
            Only in this run and the runs under it
          </Checkbox>
          <p className={css.says} data-testid="allows">
            For {timeWords}, up to {uses || '0'} calls of <code>{revealed(card.tool)}</code> by {revealed(who)} run
            without a person
            {exact ? (
              <b> with exactly these arguments and no others</b>
            ) : (
              choices.length > 0 && (
                <>
                  {' '}
                  where <b>{revealed(choices.map((choice) => constraintWords(choice, leaves)).join(', and '))}</b>
                  {'; arguments that are not named here may be anything'}
                </>
              )
            )}
            . Everything else asks as before; where a label rule asks, a person is asked all the same. Another version
            of the tool ends it.
          </p>
          {failure ? <Problem error={asApiError(failure)} /> : null}
        </div>
        <div className={css.bottom}>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" disabledReason={off} keys={SUBMIT_KEYS} onPress={send}>
            Approve and allow
          </Button>
        </div>
      </div>
    </Drawer>
  )
}

function Demand({
  leaf,
  choice,
  onChange,
}: {
  leaf: Leaf
  choice: Choice | undefined
  onChange: (next: Partial<Choice> | undefined) => void
}) {
  const name = leaf.pointer.slice(1) || 'the input'
  return (
    <div className={css.row}>
      <Checkbox isSelected={choice !== undefined} onChange={(on) => onChange(on ? { kind: 'const' } : undefined)}>
        <code>{revealed(name)}</code>
      </Checkbox>
      {choice ? (
        <Select
          label={`What must hold of ${name}`}
          hideLabel
          bare
          options={kindsFor(leaf)}
          value={choice.kind}
          onChange={(kind) =>
            onChange({ kind: kind as ConstraintKind, text: suggestion(leaf, kind as ConstraintKind) })
          }
        />
      ) : (
        <span className={css.value}>may be anything</span>
      )}
      {choice && choice.kind !== 'const' ? (
        <TextField label={`Of ${name}`} hideLabel mono value={choice.text} onChange={(text) => onChange({ text })} />
      ) : (
        choice && <code className={css.value}>{revealed(JSON.stringify(leaf.value))}</code>
      )}
    </div>
  )
}
