// Gives a provider its key: it goes into the vault, for this provider and its host alone.
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Select, TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { setKey, useProviderChange } from './queries'

export function KeyDialog({
  provider,
  secret,
  host,
  onClose,
}: {
  provider: string
  secret: string
  host: string
  onClose: () => void
}) {
  const me = useMe()
  const scopes = [
    { id: 'org', label: 'everybody in the organisation', permission: 'secrets.org' },
    { id: 'user', label: 'me alone', permission: 'secrets.user' },
  ].filter(({ permission }) => may(me, permission))
  const [scope, setScope] = useState(scopes[0]?.id ?? 'user')
  const [value, setValue] = useState('')
  const save = useProviderChange(setKey)
  const done = () => {
    notify(`${secret} is set. Test the provider now.`)
    onClose()
  }
  return (
    <Dialog
      title={`Set ${secret}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            kind="primary"
            isPending={save.isPending}
            disabledReason={value === '' ? 'Write the key first' : undefined}
            onPress={() =>
              save.mutate(
                { scope: scope === 'org' ? 'org' : 'user', secret, value, provider, host },
                { onSuccess: done },
              )
            }
          >
            Set the key
          </Button>
        </>
      }
    >
      <p>
        Only the provider <code>{provider}</code> gets it, and it goes to <code>{host}</code> and no other host. A value
        that was there before is gone. It is never shown again.
      </p>
      <TextField label="Key" type="password" autoComplete="off" value={value} onChange={setValue} required autoFocus />
      <Select label="For" options={scopes} value={scope} onChange={setScope} />
      {save.isError && <Problem error={save.error} />}
    </Dialog>
  )
}
