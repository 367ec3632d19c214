// A key for an agent: shown once, with the lines that try it. It is not closed before it is said to be stored.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { Button } from '../../ui/Button'
import { Checkbox } from '../../ui/Checkbox'
import { CopyId } from '../../ui/CopyId'
import { Dialog } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import css from './agents.module.css'
import { keyName } from './keyName'
import { keysQuery, makeKey } from './queries'

export function KeyDialog({ agent, onClose }: { agent: string; onClose: () => void }) {
  const client = useQueryClient()
  const keys = useQuery(keysQuery()).data?.items
  // A key that was revoked is still in the list, under its name.
  const taken = keys?.map(({ name }) => name) ?? []
  const [typed, setTyped] = useState<string>()
  const name = typed ?? keyName(agent, taken)
  const made = useMutation({
    mutationFn: makeKey,
    onSuccess: () => void client.invalidateQueries({ queryKey: ['keys'] }),
  })
  if (made.isSuccess) return <Made agent={agent} secret={made.data.secret} onClose={onClose} />
  const isTaken = taken.includes(name.trim())
  return (
    <Dialog
      title={`A key for ${agent}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            kind="primary"
            isPending={made.isPending}
            disabledReason={
              name.trim() === '' ? 'Give it a name first' : isTaken ? 'Another key has this name' : undefined
            }
            onPress={() => made.mutate({ name: name.trim(), agent })}
          >
            Make the key
          </Button>
        </>
      }
    >
      {made.isError && <Problem error={made.error} />}
      <TextField
        label="Name"
        value={name}
        onChange={setTyped}
        hint="To tell it from others, and to revoke it."
        error={isTaken ? 'Another key has this name: two could not be told apart.' : undefined}
        autoFocus
      />
    </Dialog>
  )
}

function Made({ agent, secret, onClose }: { agent: string; secret: string; onClose: () => void }) {
  const [isStored, setStored] = useState(false)
  const [isLeaving, setLeaving] = useState(false)
  return (
    <Dialog
      title={`A key for ${agent}`}
      isOpen
      // Escape, or a click beside it: a key that is gone is gone for good.
      onClose={() => (isStored ? onClose() : setLeaving(true))}
      actions={
        <Button kind="primary" onPress={onClose} disabledReason={isStored ? undefined : 'Say first that you stored it'}>
          Done
        </Button>
      }
    >
      <div className={css.secret}>
        <p>Keep it now: it is not shown again.</p>
        <CopyId id={secret} what="the key" whole />
        <Checkbox isSelected={isStored} onChange={setStored}>
          I have stored it
        </Checkbox>
        <p role="alert" className={css.warning}>
          {isLeaving && !isStored
            ? 'Still here: once this is closed, nobody can see the key again. Store it first.'
            : ''}
        </p>
        <p className={css.quiet}>Try it:</p>
        <pre>{`export KEY=…  # the key above
curl ${window.location.origin}/api/v1/calls \\
  -H "Authorization: Bearer $KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"tool": "echo", "input": {"text": "hello"}}'`}</pre>
      </div>
    </Dialog>
  )
}
