// Tools that claim to be milder than they are taken for: a claim, until somebody looked and says so with a reason.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { CLASS_OPTIONS, ClassBadge } from '../../ui/domain'
import { Select, TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { classify, reviewQuery, type Suggestion, useUpstreamChange } from './queries'
import css from './upstreams.module.css'

export function Review({ name }: { name: string }) {
  const me = useMe()
  const suggestions = useQuery(reviewQuery(name)).data?.suggestions ?? []
  const [looking, setLooking] = useState<Suggestion>()
  if (suggestions.length === 0 && !looking) return null
  return (
    <Section
      title="To review"
      note="Until somebody looked, each tool counts as one that changes things outside, so every call asks. These claim to be milder; leave them, and they go on asking."
    >
      <ul className={css.list}>
        {suggestions.map((suggestion) => (
          <li key={suggestion.tool}>
            <span className={css.words}>
              <code>{revealed(suggestion.name)}</code>
              <br />
              <span className={css.quiet}>{revealed(suggestion.reason)}</span>
            </span>
            <ClassBadge egressClass={suggestion.suggested} />
            <Button
              size="small"
              disabledReason={may(me, 'tools.classify') ? undefined : 'Operators classify tools'}
              onPress={() => setLooking(suggestion)}
              aria-label={`Review ${suggestion.name}`}
            >
              Review…
            </Button>
          </li>
        ))}
      </ul>
      {looking && <ReviewDialog suggestion={looking} onClose={() => setLooking(undefined)} />}
    </Section>
  )
}

function ReviewDialog({ suggestion, onClose }: { suggestion: Suggestion; onClose: () => void }) {
  const [chosen, setChosen] = useState<string>(suggestion.suggested)
  const [reason, setReason] = useState('')
  const save = useUpstreamChange(classify)
  const off = reason.trim() === '' ? 'Say first how you know' : undefined
  const send = () => {
    if (off !== undefined || save.isPending) return
    save.mutate(
      { tool: suggestion.name, egress_class: chosen as Suggestion['suggested'], reason: reason.trim() },
      {
        onSuccess: () => {
          notify(`${suggestion.name} is reviewed.`)
          onClose()
        },
      },
    )
  }
  useSubmitKey(send, true)
  return (
    <Dialog
      title={`What does ${suggestion.name} do?`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Leave it</Button>
          <Button kind="primary" keys={SUBMIT_KEYS} disabledReason={off} isPending={save.isPending} onPress={send}>
            Say so
          </Button>
        </>
      }
    >
      <p>
        A hint is a claim of the server. Look at the tool itself: what you say here decides whether people are asked.
      </p>
      <Select label="It" options={CLASS_OPTIONS} value={chosen} onChange={setChosen} />
      <TextField
        label="How you know"
        value={reason}
        onChange={setReason}
        lines={3}
        required
        hint="The log keeps it. For example: read its code."
      />
      {save.isError && <Problem error={save.error} />}
    </Dialog>
  )
}
