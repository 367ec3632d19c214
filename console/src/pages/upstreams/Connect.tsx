// Tokens for a server that wants them: begun here, said yes to at whoever gives them, ended here.
import { useState } from 'react'
import type { Schemas } from '../../api/client'
import { useNames } from '../../app/names'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { CopyLine } from '../../ui/CopyLine'
import { Dialog } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { Time } from '../../ui/Time'
import { remember } from './connecting'
import { beginConnection, disconnect, endConnection, type Shown, useUpstreamChange } from './queries'
import { redirectOf } from './standing'
import css from './upstreams.module.css'

export function Connect({
  name,
  connections,
  per,
}: {
  name: string
  connections: Shown['connections']
  per: 'org' | 'user'
}) {
  const me = useMe()
  const nameOf = useNames()
  const [address, setAddress] = useState<string>()
  const [leaving, setLeaving] = useState<Schemas['SecretScope']>()
  const begin = useUpstreamChange(beginConnection)
  const { redirect, comesBack } = redirectOf(window.location.origin)
  const off =
    per === 'user'
      ? may(me, 'secrets.user')
        ? undefined
        : 'Connecting yourself needs the role member'
      : may(me, 'upstreams.edit')
        ? undefined
        : 'Operators connect the organisation'
  const start = () =>
    begin.mutate(
      { name, redirect },
      {
        onSuccess: ({ address: there }) => {
          if (!comesBack) return setAddress(there)
          remember(name)
          window.location.assign(there)
        },
      },
    )
  return (
    <>
      {connections.length > 0 ? (
        <ul className={css.list}>
          {connections.map(({ scope, connected_by, updated_at }) => (
            <li key={scope}>
              <span className={css.words}>
                {scope === 'org' ? 'The organisation' : 'You'}{' '}
                <span className={css.quiet}>
                  connected <Time at={updated_at} /> by {revealed(nameOf(connected_by))}
                </span>
              </span>
              <Button size="small" onPress={() => setLeaving(scope)}>
                Disconnect…
              </Button>
            </li>
          ))}
        </ul>
      ) : (
        may(me, 'upstreams.edit') && (
          <p className={css.quiet}>
            {per === 'user' ? 'You are not connected, so your' : 'Nobody is connected, so'} calls fail with{' '}
            <code>AUTH_REQUIRED</code>.
          </p>
        )
      )}
      <p className={css.bar}>
        <Button
          kind={connections.length === 0 ? 'primary' : 'plain'}
          disabledReason={off}
          isPending={begin.isPending}
          onPress={start}
        >
          {connections.length === 0 ? 'Connect' : 'Connect again'}
        </Button>
        <span className={css.quiet}>
          {comesBack ? 'You are sent there, and come back here.' : 'You open an address, and bring back another.'}
        </span>
      </p>
      {begin.isError && <Problem error={begin.error} />}
      {address !== undefined && <AnswerDialog name={name} address={address} onClose={() => setAddress(undefined)} />}
      {leaving && <DisconnectDialog name={name} scope={leaving} onClose={() => setLeaving(undefined)} />}
    </>
  )
}

/** Nobody listens where the browser comes back to: the address says all that is needed. */
function AnswerDialog({ name, address, onClose }: { name: string; address: string; onClose: () => void }) {
  const [answer, setAnswer] = useState('')
  const end = useUpstreamChange(endConnection)
  return (
    <Dialog
      title={`Connect ${name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            kind="primary"
            isPending={end.isPending}
            disabledReason={answer.trim() === '' ? 'Bring the address first' : undefined}
            onPress={() =>
              end.mutate(
                { name, answer: answer.trim() },
                {
                  onSuccess: () => {
                    notify(`${name} is connected.`)
                    onClose()
                  },
                },
              )
            }
          >
            Finish
          </Button>
        </>
      }
    >
      <p>1. Open this address in your browser, and say yes there. It is good for ten minutes.</p>
      <CopyLine text={address} what="address" />
      <p>
        <a href={address} target="_blank" rel="noopener noreferrer">
          Open it in a new tab
        </a>
      </p>
      <p>2. The browser then shows a page that cannot be reached. Copy its whole address from the bar above it.</p>
      <TextField label="Address that it came back to" value={answer} onChange={setAnswer} mono required />
      {end.isError && <Problem error={end.error} />}
    </Dialog>
  )
}

function DisconnectDialog({
  name,
  scope,
  onClose,
}: {
  name: string
  scope: Schemas['SecretScope']
  onClose: () => void
}) {
  const leave = useUpstreamChange(disconnect)
  return (
    <ConfirmDialog
      title={`Disconnect ${name}?`}
      confirm="Disconnect"
      isPending={leave.isPending}
      error={leave.error}
      onConfirm={() =>
        leave.mutate(
          { name, scope },
          {
            onSuccess: () => {
              notify(`${name} is disconnected.`)
              onClose()
            },
          },
        )
      }
      onClose={onClose}
    >
      <p>Its tokens are taken away here. Whoever gave them is not told: revoke them there as well.</p>
    </ConfirmDialog>
  )
}
