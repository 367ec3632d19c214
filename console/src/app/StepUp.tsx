// Where the server wants to know again that it is you: `withStepUp(send)` asks for it and sends again. `<StepUp>` is in
// the frame of every page.
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState, useSyncExternalStore } from 'react'
import { api, taken } from '../api/client'
import { ApiError, asApiError } from '../api/errors'
import { queries, queryClient } from '../api/queries'
import { Button } from '../ui/Button'
import { Dialog } from '../ui/Dialog'
import { TextField } from '../ui/Field'
import { Problem } from '../ui/Problem'
import css from './StepUp.module.css'

interface Asked {
  proved: () => void
  given_up: () => void
}

let asked: Asked | undefined
const watchers = new Set<() => void>()

function become(next: Asked | undefined) {
  asked = next
  for (const watcher of watchers) watcher()
}

export function wantsStepUp(error: unknown): boolean {
  if (!(error instanceof ApiError) || error.status !== 403) return false
  const details: unknown = error.problem?.details
  return typeof details === 'object' && details !== null && 'step_up' in details && details.step_up === true
}

/** Sends; where that needs a fresh proof of who you are, asks for it and sends once more. Giving up is the refusal. */
export async function withStepUp<Answer>(send: () => Promise<Answer>): Promise<Answer> {
  try {
    return await send()
  } catch (error) {
    if (!wantsStepUp(error)) throw error
    await new Promise<void>((proved, failed) => {
      asked?.given_up()
      become({ proved, given_up: () => failed(error) })
    })
    return send()
  }
}

export function StepUp() {
  const open = useSyncExternalStore(
    (changed) => {
      watchers.add(changed)
      return () => watchers.delete(changed)
    },
    () => asked,
  )
  if (!open) return null
  const end = (how: 'proved' | 'given_up') => {
    become(undefined)
    open[how]()
  }
  return (
    <Dialog title="Is it still you?" isOpen onClose={() => end('given_up')}>
      <Proof onProved={() => end('proved')} onCancel={() => end('given_up')} />
    </Dialog>
  )
}

function Proof({ onProved, onCancel }: { onProved: () => void; onCancel: () => void }) {
  const session = useQuery(queries.session())
  const [password, setPassword] = useState('')
  const [failure, setFailure] = useState<unknown>()
  const [sending, setSending] = useState(false)
  const ways: readonly string[] = session.data?.session?.step_up_by ?? ['password']

  const prove = (event: FormEvent) => {
    event.preventDefault()
    setSending(true)
    setFailure(undefined)
    taken(api.POST('/api/v1/session/step-up', { body: { password } }))
      .then(() => {
        void queryClient.invalidateQueries({ queryKey: ['session'] })
        onProved()
      })
      .catch(setFailure)
      .finally(() => setSending(false))
  }
  const leave = () => {
    const here = window.location.pathname + window.location.search
    taken(api.POST('/api/v1/session/oidc', { body: { return_to: here, step_up: true } }))
      .then(({ url }) => window.location.assign(url))
      .catch(setFailure)
  }

  const wrong = failure !== undefined && asApiError(failure).status === 401
  return (
    <form className={css.form} onSubmit={prove}>
      <p className={css.words}>This needs a proof of who you are that is at most five minutes old.</p>
      {ways.includes('password') && (
        <TextField
          label="Your password"
          type="password"
          autoComplete="current-password"
          value={password}
          onChange={setPassword}
          error={wrong ? 'This is not your password.' : undefined}
          autoFocus
          required
        />
      )}
      {ways.length === 0 && (
        <p className={css.words}>
          You have no password here. Open a new sign-in link, or set a password under Account, and come back to this.
        </p>
      )}
      {failure !== undefined && !wrong && <Problem error={failure} />}
      <div className={css.actions}>
        <Button onPress={onCancel}>Cancel</Button>
        {ways.includes('oidc') && <Button onPress={leave}>Prove it with your provider</Button>}
        {ways.includes('password') && (
          <Button
            kind="primary"
            type="submit"
            disabledReason={sending ? 'It is being sent' : password === '' ? 'Write your password first' : undefined}
          >
            Continue
          </Button>
        )}
      </div>
    </form>
  )
}
