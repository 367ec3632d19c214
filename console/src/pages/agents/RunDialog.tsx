// Gives an agent something to do; its run opens, and goes on by itself.
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { asApiError } from '../../api/errors'
import { SUBMIT_KEYS, useSubmitKey } from '../../lib/submitKey'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { ScriptedBadge } from '../../ui/domain'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { useScripted } from '../providers/queries'
import { beginRun, runQueries, useRunChange } from '../runs/queries'
import css from './agents.module.css'
import type { Agent } from './queries'

export function RunDialog({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const [prompt, setPrompt] = useState('')
  const [title, setTitle] = useState('')
  const isScripted = useScripted(agent.model)
  const begin = useRunChange(beginRun)
  const off = prompt.trim() === '' ? 'Say first what it should do' : undefined
  const send = () => {
    if (off !== undefined || begin.isPending) return
    begin.mutate(
      { agent: agent.name, prompt, title: title.trim() },
      {
        onSuccess: (run) => {
          client.setQueryData(runQueries.outputs(run.id).queryKey, run)
          void navigate(to.run(run.id))
        },
      },
    )
  }
  useSubmitKey(send, true)
  const error = begin.isError ? asApiError(begin.error) : undefined
  const at = (pointer: string) => (error?.problem?.pointer === pointer ? error.message : undefined)
  return (
    <Dialog
      title={`Run ${agent.name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" keys={SUBMIT_KEYS} isPending={begin.isPending} disabledReason={off} onPress={send}>
            Run
          </Button>
        </>
      }
    >
      <p className={css.row}>
        <span className={css.quiet}>It asks</span> <code>{agent.model}</code> {isScripted && <ScriptedBadge />}
      </p>
      <TextField
        label="Prompt"
        value={prompt}
        onChange={setPrompt}
        lines={6}
        required
        autoFocus
        error={at('/prompt')}
      />
      <TextField
        label="Title"
        value={title}
        onChange={setTitle}
        hint="What the list of runs calls it; without one, the name of the agent."
        error={at('/title')}
      />
      {error && !at('/prompt') && !at('/title') && <Problem error={error} />}
    </Dialog>
  )
}

/** Why it cannot be run now. */
export function whyNotRun({ state, model }: Pick<Agent, 'state' | 'model'>, mayRun: boolean): string | undefined {
  if (!mayRun) return 'Running agents needs the permission agents.run, which the role member has'
  if (state === 'frozen') return 'It is frozen: let it go on first'
  return model === '' ? 'It has no model: edit it, and name one such as openai/gpt-5' : undefined
}
