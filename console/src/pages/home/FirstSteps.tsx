// For a new install: three things to do, with the commands; each is ticked when it has happened, and all go when all have.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check } from 'lucide-react'
import type { ReactNode } from 'react'
import { may, useMe } from '../../app/session'
import { to } from '../../paths'
import { CopyLine } from '../../ui/CopyLine'
import { Block } from './Block'
import css from './FirstSteps.module.css'
import { home } from './queries'

export function FirstSteps() {
  const me = useMe()
  // The steps are an administrator's: whoever is invited later finds them done.
  const isMine = may(me, 'agents.manage')
  const begun = useQuery({ ...home.begun(), enabled: isMine })
  const agents = useQuery({ ...home.agents(), enabled: isMine })
  if (!isMine || !begun.data || !agents.data) return null
  const { called, asked } = begun.data
  const made = agents.data.items.length > 0
  const done = [called, made, asked].filter(Boolean).length
  if (done === 3) return null
  return (
    <Block title="First steps" note={`${done} of 3 done`}>
      <ol className={css.steps}>
        <Step isDone={called} title="Run a tool" command="toolgate call calculator expression='6*7'">
          From <Link {...to.tools()}>Tools</Link>, by a form, or on the command line.
        </Step>
        <Step
          isDone={made}
          title="Make an agent and its key"
          command={
            'toolgate agent create --name scribe\ntoolgate tool assign --tool write_file --agent scribe\ntoolgate key create scribe --agent scribe'
          }
        >
          Or under <Link {...to.agents()}>Agents</Link>. Tools that write are given to an agent one by one.
        </Step>
        <Step
          isDone={asked}
          title="Let it call something that asks"
          command={`curl ${window.location.origin}/api/v1/calls -H "Authorization: Bearer $KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '{"tool": "write_file", "input": {"path": "hello.txt", "text": "hello"}}'`}
        >
          It waits under <Link {...to.approvals()}>Approvals</Link> until you have decided.
        </Step>
      </ol>
    </Block>
  )
}

function Step({
  isDone,
  title,
  command,
  children,
}: {
  isDone: boolean
  title: string
  command: string
  children: ReactNode
}) {
  return (
    <li className={css.step} data-done={isDone || undefined}>
      <span className={css.tick} aria-hidden="true">
        {isDone && <Check />}
      </span>
      <div>
        <h3>
          {title}
          {isDone && <span className="visually-hidden"> (done)</span>}
        </h3>
        {!isDone && (
          <>
            <p>{children}</p>
            <CopyLine text={command} what={`the command: ${title}`} />
          </>
        )}
      </div>
    </li>
  )
}
