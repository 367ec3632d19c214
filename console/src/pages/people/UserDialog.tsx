// One user: roles, ways in, sessions, and stopping them altogether.
import { useState } from 'react'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { CopyId } from '../../ui/CopyId'
import { Dialog } from '../../ui/Dialog'
import { Problem } from '../../ui/Problem'
import css from './people.module.css'
import { editUser, endSessionsOf, makeSignInLink, resetPassword, type User, usePeopleChange } from './queries'
import { Roles } from './Roles'
import { SecretLink } from './SecretLink'

export function UserDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const { id, name, disabled } = user
  const [roles, setRoles] = useState(user.roles)
  const [isEnding, setEnding] = useState(false)
  const link = usePeopleChange(makeSignInLink, () => undefined)
  const reset = usePeopleChange(resetPassword, ({ mailed_to }) => (mailed_to ? `Sent to ${mailed_to}.` : undefined))
  const ended = usePeopleChange(endSessionsOf, () => `${name} is signed out everywhere.`)
  const edited = usePeopleChange(editUser, () => `${name} is changed.`)
  const failed = [link, reset, edited].find(({ isError }) => isError)
  const changed = roles.length !== user.roles.length || roles.some((role) => !user.roles.includes(role))
  const service = user.kind === 'service' ? 'A service has keys, no sign-in' : undefined
  return (
    <Dialog title={name} isOpen onClose={onClose} actions={<Button onPress={onClose}>Done</Button>}>
      {failed && <Problem error={failed.error} />}
      <CopyId id={id} what="the user's id" />
      <Roles value={roles} onChange={setRoles} />
      <div className={css.row}>
        <Button
          kind="primary"
          onPress={() => edited.mutate({ id, roles })}
          isDisabled={edited.isPending}
          disabledReason={changed ? undefined : 'The roles are as they were'}
        >
          Save the roles
        </Button>
      </div>
      {link.data && (
        <SecretLink words={`Signs ${name} in, once, within ten minutes. It is not shown again.`} url={link.data.url} />
      )}
      {reset.data?.url && (
        <SecretLink words={`Lets ${name} set a password, once, within an hour.`} url={reset.data.url} />
      )}
      <div className={css.row}>
        <Button onPress={() => link.mutate(id)} disabledReason={service}>
          Make a sign-in link
        </Button>
        <Button onPress={() => reset.mutate(id)} disabledReason={service}>
          Reset the password
        </Button>
        <Button onPress={() => setEnding(true)} disabledReason={service}>
          Sign out everywhere
        </Button>
        <Button kind="danger" onPress={() => edited.mutate({ id, disabled: !disabled })}>
          {disabled ? 'Enable' : 'Disable'}
        </Button>
      </div>
      {isEnding && (
        <ConfirmDialog
          title={`Sign ${name} out everywhere?`}
          confirm="Sign out everywhere"
          keep="Leave it"
          isPending={ended.isPending}
          error={ended.error}
          onConfirm={() => ended.mutate(id, { onSuccess: () => setEnding(false) })}
          onClose={() => setEnding(false)}
        >
          <p>Every browser that {name} is signed in with is signed out at once. Keys of agents go on.</p>
        </ConfirmDialog>
      )}
    </Dialog>
  )
}
