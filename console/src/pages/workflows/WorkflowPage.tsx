// One workflow: its graph, what is found about it, its revisions, and a run of it.
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { Play } from 'lucide-react'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { useNames } from '../../app/names'
import { useRemoval } from '../../app/removal'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { CopyButton } from '../../ui/CopyLine'
import { RunBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Json } from '../../ui/Json'
import { MenuButton } from '../../ui/MenuButton'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { Tabs } from '../../ui/Tabs'
import { Time } from '../../ui/Time'
import { Findings } from './Findings'
import { Graph } from './Graph'
import { Nodes } from './Nodes'
import { findingsQuery, latestRunsQuery, removeWorkflow, type Shown, workflowQuery } from './queries'
import { RunDialog } from './RunDialog'
import css from './workflows.module.css'

const route = getRouteApi('/shell/workflows/$name')

export function WorkflowPage() {
  const { name } = route.useParams()
  const { revision } = route.useSearch()
  const asked = Number.parseInt(revision ?? '', 10)
  const shown = useQuery(workflowQuery(name, Number.isNaN(asked) ? undefined : asked))
  if (shown.isPending) {
    return (
      <Page title={name} mono>
        <SkeletonRows />
      </Page>
    )
  }
  if (shown.isError && !shown.data) {
    const isGone = shown.error instanceof ApiError && shown.error.status === 404
    return (
      <Page title={name} mono>
        {isGone ? (
          <Empty title="There is no such workflow, or no such revision" command="toolgate workflow list">
            <Link {...to.workflows()}>All workflows</Link>
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={shown.error} retry={() => void shown.refetch()} />
          </Body>
        )}
      </Page>
    )
  }
  return <ShownWorkflow key={name} shown={shown.data} />
}

function ShownWorkflow({ shown }: { shown: Shown }) {
  const me = useMe()
  const { tab = 'graph' } = route.useSearch()
  const navigate = route.useNavigate()
  const [dialog, setDialog] = useState<'run' | 'remove'>()
  const { workflow, revisions } = shown
  const revision = workflow.revision ?? shown.revision
  const findings = useQuery(findingsQuery(shown.name, revision))
  const isOld = revision !== shown.revision
  return (
    <Page
      title={shown.name}
      mono
      badges={
        <>
          <Badge tone={isOld ? 'warn' : 'idle'} shape="none">
            revision {revision}
            {isOld && ` of ${shown.revision}`}
          </Badge>
          {findings.data?.passed === false && (
            <Badge tone="bad" shape="diamond">
              has errors
            </Badge>
          )}
        </>
      }
      actions={
        <>
          <Button
            kind="primary"
            icon={<Play aria-hidden="true" />}
            disabledReason={
              may(me, 'workflows.run')
                ? undefined
                : 'Running workflows needs the permission workflows.run, which the role member has'
            }
            onPress={() => setDialog('run')}
          >
            Run
          </Button>
          <MenuButton
            label="More for this workflow"
            acts={[
              {
                id: 'remove',
                label: 'Remove…',
                disabledReason: may(me, 'workflows.edit') ? undefined : 'Authors and administrators remove workflows',
                act: () => setDialog('remove'),
              },
            ]}
          />
        </>
      }
    >
      {workflow.description && <p className={css.about}>{revealed(workflow.description)}</p>}
      {shown.published_as && (
        <p className={css.about}>
          Published as the tool{' '}
          <Link {...to.tool(shown.published_as)}>
            <code>{revealed(shown.published_as)}</code>
          </Link>
          .
        </p>
      )}
      <Tabs
        label="Workflow"
        chosen={tab}
        onChoose={(chosen) => void navigate({ search: (before) => ({ ...before, tab: chosen }), replace: true })}
        tabs={[
          {
            id: 'graph',
            label: 'Graph',
            count: workflow.nodes.length,
            content: () => (
              <>
                <Graph workflow={workflow} />
                <Nodes workflow={workflow} findings={findings.data?.findings ?? []} />
              </>
            ),
          },
          {
            id: 'runs',
            label: 'Runs',
            content: () => <Runs workflow={shown.name} />,
          },
          {
            id: 'findings',
            label: 'Findings',
            count: findings.data?.findings.length,
            content: () => <Findings name={shown.name} checked={findings} />,
          },
          {
            id: 'revisions',
            label: 'Revisions',
            count: revisions.length,
            content: () => <Revisions shown={shown} current={revision} />,
          },
          {
            id: 'file',
            label: 'File',
            content: () => (
              <div className={css.part}>
                <p className={css.bar}>
                  <span className={css.quiet}>
                    Change it in a file, then <code>toolgate workflow save FILE</code>.
                  </span>
                  <CopyButton text={JSON.stringify(workflow, null, 2)} what="the file" />
                </p>
                <Json value={workflow} openDepth={4} />
              </div>
            ),
          },
        ]}
      />
      {dialog === 'run' && (
        <RunDialog workflow={workflow} name={shown.name} revision={revision} onClose={() => setDialog(undefined)} />
      )}
      {dialog === 'remove' && <RemoveDialog name={shown.name} onClose={() => setDialog(undefined)} />}
    </Page>
  )
}

/** The newest: the page of runs has all of them. */
function Runs({ workflow }: { workflow: string }) {
  const runs = useQuery(latestRunsQuery(workflow))
  if (runs.isPending) return <SkeletonRows />
  if (runs.isError) return <Problem error={runs.error} retry={() => void runs.refetch()} />
  if (runs.data.items.length === 0) {
    return <p className={css.about}>It has not run yet, or you may not read its runs.</p>
  }
  return (
    <ol className={css.runs}>
      {runs.data.items.map(({ id, state, title, created_at, reason, principal, principal_name }) => (
        <li key={id}>
          <RunBadge state={state} />
          <Link {...to.run(id)}>{revealed(title ?? id)}</Link>
          <span className={css.quiet}>
            <Time at={created_at} /> by {revealed(principal_name ?? principal)}
            {reason && `: ${revealed(reason)}`}
          </span>
        </li>
      ))}
    </ol>
  )
}

function Revisions({ shown, current }: { shown: Shown; current: number }) {
  const nameOf = useNames()
  return (
    <ol className={css.revisions}>
      {shown.revisions.map(({ revision, digest, saved_by, saved_at }) => (
        <li key={revision} aria-current={revision === current || undefined}>
          {revision === current ? (
            <b>Revision {revision}</b>
          ) : (
            <Link {...to.workflow(shown.name, revision === shown.revision ? undefined : revision)}>
              Revision {revision}
            </Link>
          )}
          <span className={css.quiet}>
            <Time at={saved_at} /> by {revealed(nameOf(saved_by))}
          </span>
          <code className={css.quiet} title={digest}>
            {digest.slice(0, 12)}
          </code>
        </li>
      ))}
    </ol>
  )
}

function RemoveDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const navigate = useNavigate()
  const remove = useRemoval(['workflows'], removeWorkflow, {
    said: `${name} is removed.`,
    leave: () => navigate(to.workflows()),
  })
  return (
    <ConfirmDialog
      title={`Remove ${name}?`}
      confirm="Remove"
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate(name)}
      onClose={onClose}
    >
      <p>All its revisions go. Runs that were begun go on.</p>
    </ConfirmDialog>
  )
}
