// A new password, typed once and shown on demand: what a person can read they need not type twice.
import { useState } from 'react'
import { Checkbox } from '../../ui/Checkbox'
import { TextField } from '../../ui/Field'

export const PASSWORD_CHARS_MIN = 10

export function NewPassword({
  value,
  onChange,
  error,
}: {
  value: string
  onChange: (value: string) => void
  error?: string | undefined
}) {
  const [shown, setShown] = useState(false)
  return (
    <>
      <TextField
        label="New password"
        type={shown ? 'text' : 'password'}
        value={value}
        onChange={onChange}
        autoComplete="new-password"
        hint={`At least ${PASSWORD_CHARS_MIN} characters; not your name or e-mail.`}
        error={error}
      />
      <Checkbox isSelected={shown} onChange={setShown}>
        Show it
      </Checkbox>
    </>
  )
}
