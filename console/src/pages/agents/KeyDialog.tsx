// A key for an agent: shown once, with the lines that try it.
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { Button } from '../../ui/Button'
import { CopyId } from '../../ui/CopyId'
import { Dialog } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import css from './agents.module.css'
import { makeKey } from './queries'

export function KeyDialog({ agent, onClose }: { agent: string; onClose: () => void }) {
  const [name, setName] = useState(`${agent}-key`)
  const made = useMutation({ mutationFn: makeKey })
  if (made.isSuccess) {
    return (
      <Dialog title={`A key for ${agent}`} isOpen onClose={onClose} actions={<Button onPress={onClose}>Done</Button>}>
        <div className={css.secret}>
          <p>Keep it now: it is not shown again.</p>
          <CopyId id={made.data.secret} what="the key" whole />
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
            isDisabled={made.isPending || name.trim() === ''}
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
        onChange={setName}
        hint="To tell it from others, and to revoke it."
        autoFocus
      />
    </Dialog>
  )
}
