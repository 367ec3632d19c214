// What an administrator does to a tool: switch it on or off, and say whether it is active, deprecated or blocked.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Settings2 } from 'lucide-react'
import { useState } from 'react'
import { Menu, MenuItem, MenuTrigger, Popover } from 'react-aria-components'
import type { Schemas } from '../../api/client'
import { type Me, may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { TextField } from '../../ui/Field'
import { notify } from '../../ui/Notices'
import { Problem } from '../../ui/Problem'
import type { Tool } from './definition'
import { act } from './queries'
import css from './ToolPage.module.css'

type State = Schemas['ToolState']

const VERBS: Readonly<Record<State, string>> = { active: 'Activate', deprecated: 'Deprecate', blocked: 'Block' }
const DONE: Readonly<Record<State, string>> = { active: 'active', deprecated: 'deprecated', blocked: 'blocked' }
const WHAT: Readonly<Record<State, string>> = {
  active: 'It is listed and runs.',
  deprecated: 'It still runs, with a warning, and is listed only when asked for.',
  blocked: 'No call of it runs, whoever makes it, from now on.',
}

export function Administer({ tool, version }: { tool: Tool; version: string | undefined }) {
  const me = useMe()
  const client = useQueryClient()
  const [becoming, setBecoming] = useState<State>()
  const toggle = useMutation({
    mutationFn: (enabled: boolean) => act.enable(tool.name, enabled),
    onSuccess: (_, enabled) => {
      notify(`${tool.name} is switched ${enabled ? 'on' : 'off'}.`)
      void client.invalidateQueries({ queryKey: ['tools'] })
    },
    onError: (error) => notify(error.message, 'bad'),
  })
  const switchReason = may(me, 'tools.override') ? undefined : 'needs the role admin'
  const stateReason = whyNotState(me, tool)
  const others = (['active', 'deprecated', 'blocked'] as const).filter((state) => state !== tool.state)
  return (
    <>
      <MenuTrigger>
        <Button icon={<Settings2 aria-hidden="true" />}>Manage</Button>
        <Popover className={css.menu ?? ''} placement="bottom end">
          <Menu
            className={css.menuList ?? ''}
            aria-label={`Manage ${tool.name}`}
            disabledKeys={[...(switchReason ? ['switch'] : []), ...(stateReason ? others : [])]}
            onAction={(key) => {
              if (key === 'switch') toggle.mutate(!tool.enabled)
              else setBecoming(key as State)
            }}
          >
            <Item id="switch" label={tool.enabled ? 'Switch off here' : 'Switch on here'} why={switchReason} />
            {others.map((state) => (
              <Item key={state} id={state} label={`${VERBS[state]}…`} why={stateReason} />
            ))}
          </Menu>
        </Popover>
      </MenuTrigger>
      {becoming && <Become tool={tool} version={version} state={becoming} onClose={() => setBecoming(undefined)} />}
    </>
  )
}

function Item({ id, label, why }: { id: string; label: string; why: string | undefined }) {
  return (
    <MenuItem id={id} textValue={label} className={css.menuItem ?? ''}>
      {label}
      {why && <small>{why}</small>}
    </MenuItem>
  )
}

/** Why this person cannot change the state; a shared tool's holds for every tenant, so it is the operator's. */
function whyNotState(me: Me, tool: Tool): string | undefined {
  if (tool.shared) return may(me, 'tenants.manage') ? undefined : 'shared by all tenants: the operator’s'
  return may(me, 'tools.tenant.update') ? undefined : 'needs the role author'
}

function Become({
  tool,
  version,
  state,
  onClose,
}: {
  tool: Tool
  version: string | undefined
  state: State
  onClose: () => void
}) {
  const client = useQueryClient()
  const [message, setMessage] = useState('')
  const [replacedBy, setReplacedBy] = useState('')
  const name = version ? `${tool.name}@${version}` : tool.name
  const change = useMutation({
    mutationFn: () =>
      act.become(name, {
        state,
        ...(message.trim() ? { message: message.trim() } : {}),
        ...(replacedBy.trim() ? { replaced_by: replacedBy.trim() } : {}),
      }),
    onSuccess: () => {
      notify(`${name} is ${DONE[state]}.`)
      void client.invalidateQueries({ queryKey: ['tools'] })
      onClose()
    },
  })
  return (
    <Dialog
      title={`${VERBS[state]} ${name}?`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Keep it as it is</Button>
          <Button
            kind={state === 'active' ? 'primary' : 'danger'}
            isPending={change.isPending}
            onPress={() => change.mutate()}
          >
            {VERBS[state]}
          </Button>
        </>
      }
    >
      <p>
        {WHAT[state]} {version ? 'This version alone.' : 'All its versions.'}
      </p>
      {state !== 'active' && (
        <TextField
          label="Why"
          hint="Shown to whoever looks at the tool, and to callers."
          value={message}
          onChange={setMessage}
        />
      )}
      {state === 'deprecated' && (
        <TextField
          label="Replaced by"
          hint="A name, or name@version."
          mono
          value={replacedBy}
          onChange={setReplacedBy}
        />
      )}
      {change.error && <Problem error={change.error} />}
    </Dialog>
  )
}
