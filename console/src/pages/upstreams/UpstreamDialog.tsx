// Puts a server behind the gate, or changes how it is reached.
import { useState } from 'react'
import { asApiError } from '../../api/errors'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Select, TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import { saveUpstream, type Upstream, useUpstreamChange } from './queries'
import { filledOf, missingIn, type Proof, specOf, type Way } from './spec'
import css from './upstreams.module.css'

const WAYS = [
  { id: 'http', label: 'at an address' },
  { id: 'sse', label: 'at an address, the older way (SSE)' },
  { id: 'stdio', label: 'a program on the server’s computer' },
]
const PROOFS = [
  { id: 'none', label: 'nothing' },
  { id: 'header', label: 'a secret in a header' },
  { id: 'oauth', label: 'tokens that a person agrees to (OAuth)' },
]
const PER = [
  { id: 'org', label: 'one for the organisation' },
  { id: 'user', label: 'each caller’s own' },
]

export function UpstreamDialog({
  upstream,
  onSaved,
  onClose,
}: {
  /** Nothing: a new one. */
  upstream?: Upstream
  onSaved?: (saved: { name: string }) => void
  onClose: () => void
}) {
  const [filled, setFilled] = useState(() => filledOf(upstream))
  const save = useUpstreamChange(saveUpstream)
  const set = (change: Partial<typeof filled>) => setFilled((before) => ({ ...before, ...change }))
  const off = missingIn(filled)
  const error = save.isError ? asApiError(save.error) : undefined
  const at = (pointer: string) => (error?.problem?.pointer === pointer ? error.message : undefined)
  const placed = ['/name', '/transport/url', '/transport/entry'].some((pointer) => at(pointer) !== undefined)
  const send = () => {
    if (off !== undefined || save.isPending) return
    save.mutate(specOf(filled, upstream), {
      onSuccess: ({ name, reading, moved }) => {
        notify(
          moved
            ? `${name} is saved. It waits until where it is now is accepted.`
            : reading && !reading.problem
              ? `${name} is connected: ${reading.tools.length} tools.`
              : `${name} is saved, and could not be read yet.`,
        )
        onClose()
        onSaved?.({ name })
      },
    })
  }
  useSubmitKey(send, true)
  return (
    <Dialog
      title={upstream ? `Edit ${upstream.name}` : 'Connect a server'}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" keys={SUBMIT_KEYS} disabledReason={off} isPending={save.isPending} onPress={send}>
            {upstream ? 'Save' : 'Connect'}
          </Button>
        </>
      }
    >
      {!upstream && (
        <TextField
          label="Name"
          value={filled.name}
          onChange={(name) => set({ name })}
          hint="Its tools are named NAME.TOOL: small letters, digits and dashes."
          error={at('/name')}
          required
          autoFocus
        />
      )}
      <TextField label="Title" value={filled.title} onChange={(title) => set({ title })} hint="What people read." />
      <Select label="It is" options={WAYS} value={filled.way} onChange={(way) => set({ way: way as Way })} />
      {filled.way === 'stdio' ? (
        <TextField
          label="Entry"
          value={filled.entry}
          onChange={(entry) => set({ entry })}
          hint="Its name under `upstreams` in the operator’s entries.yaml, which alone says which command is started."
          error={at('/transport/entry')}
          required
          mono
        />
      ) : (
        <>
          <TextField
            label="Address"
            type="url"
            value={filled.url}
            onChange={(url) => set({ url })}
            hint="Such as https://mcp.example.com/mcp. Addresses inside are closed until the operator opens them."
            error={at('/transport/url')}
            required
          />
          <Select
            label="It wants"
            options={PROOFS}
            value={filled.proof}
            onChange={(proof) => set({ proof: proof as Proof })}
          />
          {filled.proof === 'header' && (
            <div className={css.pair}>
              <TextField label="Header" value={filled.header} onChange={(header) => set({ header })} mono />
              <TextField label="Before it" value={filled.scheme} onChange={(scheme) => set({ scheme })} mono />
              <TextField
                label="Secret"
                value={filled.secret}
                onChange={(secret) => set({ secret })}
                hint="Its name, such as ISSUES_TOKEN; never its value."
                mono
              />
            </div>
          )}
          {filled.proof === 'oauth' && (
            <Select
              label="Whose connection"
              options={PER}
              value={filled.per}
              onChange={(per) => set({ per: per === 'user' ? 'user' : 'org' })}
            />
          )}
        </>
      )}
      {upstream && (
        <p className={css.quiet}>
          A server that is elsewhere, or started otherwise, than when it was accepted is not used until you accept that.
        </p>
      )}
      {error && !placed && <Problem error={error} />}
    </Dialog>
  )
}
