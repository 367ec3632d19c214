// What callers have seen: the labels for which people are asked, and a way to forget them, with its reason.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api, type Schemas, taken } from '../../api/client'
import { useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { LabelBadge } from '../../ui/domain'
import { TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { Time } from '../../ui/Time'
import css from './Seen.module.css'

type Context = Schemas['ContextView']

const LISTED_MAX = 100
const NOTE =
  'Callers without runs carry what they read with them, and are asked about because of it. It is forgotten by itself.'

const contextsQuery = {
  queryKey: ['agents', 'seen'],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    taken(api.GET('/api/v1/labels/contexts', { params: { query: { limit: LISTED_MAX } }, signal })),
}

export function Seen() {
  const me = useMe()
  const nameOf = useNames()
  const contexts = useQuery({ ...contextsQuery, enabled: may(me, 'calls.read.all') })
  const [forgetting, setForgetting] = useState<Context>()
  const seen = (contexts.data?.items ?? []).filter(({ labels }) => labels.length > 0)
  if (contexts.isError) return <Problem error={contexts.error} retry={() => void contexts.refetch()} />
  if (seen.length === 0) return null
  const off = whyNot(may(me, 'labels.reset'), me.signed_in_by)
  return (
    <div className={css.seen}>
      <Section title="What callers have seen" note={NOTE}>
        <ul className={css.list}>
          {seen.map((context) => (
            <li key={context.context}>
              <span className={css.who}>{revealed(whoOf(context, nameOf))}</span>
              <span className={css.labels}>
                {context.labels.map((label) => (
                  <LabelBadge key={label} label={label} />
                ))}
              </span>
              <span className={css.quiet}>
                forgotten <Time at={context.forgotten_at} />
              </span>
              <Button size="small" disabledReason={off} onPress={() => setForgetting(context)}>
                Forget…
              </Button>
            </li>
          ))}
        </ul>
        {forgetting && (
          <ForgetDialog context={forgetting} who={whoOf(forgetting, nameOf)} onClose={() => setForgetting(undefined)} />
        )}
      </Section>
    </div>
  )
}

function whyNot(holds: boolean, signedInBy: string): string | undefined {
  if (!holds) return 'Forgetting labels needs the permission labels.reset, which the role admin has'
  return signedInBy === 'browser' ? undefined : 'Only a person who signed in at a browser forgets labels'
}

/** `user:… agent:…` or `user:… key:…`: the agent, else the person. */
function whoOf({ agent, context }: Context, nameOf: (principal: string) => string): string {
  return agent ?? nameOf(context.split(' ')[0] ?? context)
}

function ForgetDialog({ context, who, onClose }: { context: Context; who: string; onClose: () => void }) {
  const client = useQueryClient()
  const [reason, setReason] = useState('')
  const forget = useMutation({
    mutationFn: () =>
      taken(api.POST('/api/v1/labels/reset', { body: { context: context.context, reason: reason.trim() } })),
    onSuccess: () => {
      notify(`What ${who} has seen is forgotten.`)
      void client.invalidateQueries({ queryKey: contextsQuery.queryKey })
      onClose()
    },
  })
  const send = () => {
    if (reason.trim() !== '' && !forget.isPending) forget.mutate()
  }
  useSubmitKey(send, true)
  return (
    <Dialog title={`Forget what ${who} has seen`} isOpen onClose={onClose}>
      <form
        className={css.form}
        onSubmit={(event: FormEvent) => {
          event.preventDefault()
          send()
        }}
      >
        <p>
          Rules about {context.labels.join(' and ')} data no longer stop its calls. If it still remembers what it read,
          it can now send that away unasked.
        </p>
        <TextField
          label="Why"
          hint="The log keeps it: why what was read does no harm any more."
          lines={3}
          value={reason}
          onChange={setReason}
          required
          autoFocus
        />
        {forget.error && <Problem error={forget.error} />}
        <div className={css.actions}>
          <Button onPress={onClose}>Keep it</Button>
          <Button
            kind="danger"
            type="submit"
            keys={SUBMIT_KEYS}
            disabledReason={forget.isPending ? 'It is being sent' : reason.trim() === '' ? 'Say why first' : undefined}
          >
            Forget
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
