// One call in full: what was asked, how it was decided, what came of it, and the proof.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ExternalLink, RotateCcw } from 'lucide-react'
import type { ReactNode } from 'react'
import { ApiError } from '../../api/errors'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { CallBadge, ClassBadge, LabelBadge, MannerBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Json } from '../../ui/Json'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { SkeletonRows } from '../../ui/Skeleton'
import { Difference } from '../approvals/Difference'
import { Actions } from './Actions'
import { Approval } from './Approval'
import css from './Call.module.css'
import { CallError } from './CallError'
import { DecisionTrail } from './DecisionTrail'
import { Events } from './Events'
import { Facts } from './Facts'
import { type Call, callQueries, isOpen } from './queries'
import { Receipt } from './Receipt'
import { Result } from './Result'
import { Timing } from './Timing'

export function CallView({ id, frame }: { id: string; frame: 'drawer' | 'page' }) {
  const call = useQuery(callQueries.one(id))
  if (call.isPending) {
    return (
      <Frame frame={frame} title="Call">
        {<SkeletonRows />}
      </Frame>
    )
  }
  if (call.isError && !call.data) {
    const isGone = call.error instanceof ApiError && call.error.status === 404
    return (
      <Frame frame={frame} title="Call">
        {isGone ? (
          <Empty title="There is no such call" command="toolgate calls list">
            It may have been deleted by the retention, or it is somebody else’s and you may read only your own.
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={call.error} retry={() => void call.refetch()} />
          </Body>
        )}
      </Frame>
    )
  }
  return <Shown call={call.data} frame={frame} />
}

function Frame({ frame, title, children }: { frame: 'drawer' | 'page'; title: string; children: ReactNode }) {
  if (frame === 'page') return <Page title={title}>{children}</Page>
  return (
    <div className={css.drawer}>
      <header className={css.header}>
        <h2>{title}</h2>
      </header>
      {children}
    </div>
  )
}

function Shown({ call, frame }: { call: Call; frame: 'drawer' | 'page' }) {
  const events = useQuery(callQueries.events(call.run_id, call.id, !isOpen(call.status))).data ?? []
  const actions = (
    <>
      {frame === 'drawer' && (
        <Link {...to.call(call.id)} className={css.link}>
          <ExternalLink aria-hidden="true" /> Full page
        </Link>
      )}
      <Link {...to.tool(call.name)} search={{ again: call.id }} className={css.link}>
        <RotateCcw aria-hidden="true" /> Run again
      </Link>
      <Actions call={call} />
    </>
  )
  const parts = (
    <div className={css.parts}>
      <Timing call={call} events={events} />
      {call.error && <CallError error={call.error} call={call} />}
      <Result call={call} />
      <Section title="Input">
        {call.input === null ? (
          <p className={css.quiet}>It was erased.</p>
        ) : (
          <div className={css.sheet}>
            <Json value={call.input} openDepth={4} />
          </div>
        )}
      </Section>
      {call.proposed_input && (
        <Section title="Changed input" note="What whoever approved changed of what was first asked for.">
          <Difference before={call.proposed_input} after={call.input} />
        </Section>
      )}
      <Section title="Details">
        <Facts call={call} />
      </Section>
      <Section title="Decision">
        <DecisionTrail call={call} />
      </Section>
      <Section title="Events">
        <Events events={events} from={call.created_at} principal={call.principal} />
      </Section>
      <Receipt call={call} />
    </div>
  )
  if (frame === 'page') {
    return (
      <Page title={`${call.name}@${call.version}`} mono badges={<Badges call={call} />} actions={actions}>
        <div className={css.page}>
          {parts}
          <Approval call={call} />
        </div>
      </Page>
    )
  }
  return (
    <div className={css.drawer}>
      <header className={css.header}>
        <h2>
          <code>
            {revealed(call.name)}
            <span className={css.quiet}>@{call.version}</span>
          </code>
        </h2>
        {call.tool_title !== call.name && <p className={css.quiet}>{revealed(call.tool_title)}</p>}
        <div className={css.badges}>
          <Badges call={call} />
        </div>
        <div className={css.actions}>{actions}</div>
      </header>
      {parts}
      <Approval call={call} />
    </div>
  )
}

function Badges({ call }: { call: Call }) {
  return (
    <>
      <CallBadge status={call.status} error={call.error?.code} />
      <ClassBadge egressClass={call.egress_class} />
      {call.mode !== 'execute' && <MannerBadge manner={call.mode === 'dry_run' ? 'dry_run' : 'recorded'} />}
      {call.cached && <MannerBadge manner="cached" />}
      {call.truncated && (
        <Badge tone="warn" shape="none">
          output cut
        </Badge>
      )}
      {call.labels?.map((label) => (
        <LabelBadge key={label} label={label} />
      ))}
    </>
  )
}
