// One server behind the gate: how it stands, what it offers that nobody has accepted, what its tools are, who is connected.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { PlugZap, RotateCw } from 'lucide-react'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { useNames } from '../../app/names'
import { useRemoval } from '../../app/removal'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { Empty } from '../../ui/Empty'
import { Fact, Facts } from '../../ui/Facts'
import { MenuButton } from '../../ui/MenuButton'
import { notify } from '../../ui/Notices'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { Section } from '../../ui/Section'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { Connect } from './Connect'
import { Offers } from './Offers'
import { refreshUpstream, removeUpstream, type Shown, testUpstream, upstreamQuery, useUpstreamChange } from './queries'
import { Read } from './Read'
import { Review } from './Review'
import { standingOf, whereOf } from './standing'
import { UpstreamDialog } from './UpstreamDialog'
import { StandingBadge } from './UpstreamsPage'
import css from './upstreams.module.css'

export function UpstreamPage() {
  const me = useMe()
  const { name } = useParams({ from: '/shell/upstreams/$name' })
  const mayEdit = may(me, 'upstreams.edit')
  const upstream = useQuery({ ...upstreamQuery(name), enabled: mayEdit })
  if (!mayEdit) {
    // Whoever was sent here by an error connects themselves; the rest is the operators'.
    return (
      <Page title={name} mono>
        <div className={css.parts}>
          <Section title="Your connection" note="Calls of this server’s tools need one where it says so.">
            <Connect name={name} connections={[]} per="user" />
          </Section>
        </div>
      </Page>
    )
  }
  if (upstream.isPending) {
    return (
      <Page title={name} mono>
        <SkeletonRows />
      </Page>
    )
  }
  if (upstream.isError && !upstream.data) {
    const isGone = upstream.error instanceof ApiError && upstream.error.status === 404
    return (
      <Page title={name} mono>
        {isGone ? (
          <Empty title="There is no such server" command="toolgate upstream list">
            Nobody connected it, or somebody removed it. <Link {...to.upstreams()}>All servers</Link>
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={upstream.error} retry={() => void upstream.refetch()} />
          </Body>
        )}
      </Page>
    )
  }
  return <ShownUpstream key={name} upstream={upstream.data} />
}

function ShownUpstream({ upstream }: { upstream: Shown }) {
  const nameOf = useNames()
  const [dialog, setDialog] = useState<'edit' | 'remove'>()
  const { name, health, reading, auth } = upstream
  const test = useUpstreamChange(testUpstream)
  const refresh = useUpstreamChange(refreshUpstream)
  const standing = standingOf(upstream)
  const close = () => setDialog(undefined)
  const busy = test.isPending || refresh.isPending
  return (
    <Page
      title={name}
      mono
      badges={<StandingBadge upstream={upstream} />}
      actions={
        <>
          <Button
            icon={<PlugZap aria-hidden="true" />}
            isPending={test.isPending}
            isDisabled={busy}
            onPress={() => test.mutate(name)}
          >
            Test connection
          </Button>
          <Button
            icon={<RotateCw aria-hidden="true" />}
            isPending={refresh.isPending}
            isDisabled={busy}
            onPress={() => {
              // What a test said before is old by then.
              test.reset()
              refresh.mutate(name, { onSuccess: () => notify(`${name} is read anew.`) })
            }}
          >
            Read anew
          </Button>
          <MenuButton
            label="More for this server"
            acts={[
              { id: 'edit', label: 'Edit…', act: () => setDialog('edit') },
              { id: 'remove', label: 'Remove…', act: () => setDialog('remove') },
            ]}
          />
        </>
      }
    >
      {standing.about !== '' && (
        <p className={css.notice} data-tone={standing.tone}>
          <Prose text={standing.about} />
        </p>
      )}
      <div className={css.parts}>
        {[test.error, refresh.error].map((error) => error && <Problem key={error.message} error={error} />)}
        {test.data && (
          <Section title="Test" note="What reading it now would bring; nothing of it was kept.">
            <Read reading={test.data} />
          </Section>
        )}
        <Offers upstream={upstream} />
        <Section title="What it is">
          <Facts>
            {upstream.title && <Fact name="Title">{revealed(upstream.title)}</Fact>}
            <Fact name="Where">{revealed(whereOf(upstream))}</Fact>
            {reading?.server?.name && (
              <Fact name="Calls itself">
                {revealed(`${reading.server.name} ${reading.server.version ?? ''}`)}
                {reading.was?.name && (
                  <span className={css.quiet}>
                    , accepted as {revealed(`${reading.was.name} ${reading.was.version ?? ''}`)}
                  </span>
                )}
              </Fact>
            )}
            {health?.revision && <Fact name="Speaks">MCP of {health.revision}</Fact>}
            <Fact name="Answered">
              {health?.last_success_at ? (
                <Time at={health.last_success_at} />
              ) : (
                <span className={css.quiet}>not yet</span>
              )}
              {health?.last_error_at && (
                <span className={css.quiet}>
                  , failed <Time at={health.last_error_at} />
                </span>
              )}
            </Fact>
            {health?.complaint && <Fact name="It said">{revealed(health.complaint)}</Fact>}
            <Fact name="Saved">
              <Time at={upstream.updated_at} /> by {revealed(nameOf(upstream.saved_by))}
            </Fact>
          </Facts>
        </Section>
        {auth && (
          <Section
            title="Connection"
            note={
              auth.oauth.per === 'user'
                ? 'Each caller connects for themselves; what it offers is read with the organisation’s.'
                : 'One for everybody who calls its tools.'
            }
          >
            <Connect name={name} connections={upstream.connections} per={auth.oauth.per ?? 'org'} />
          </Section>
        )}
        <Section title="Tools" {...(upstream.read_at ? {} : { note: 'It was not read yet.' })}>
          {reading && <Read reading={reading} at={upstream.read_at} />}
        </Section>
        <Review name={name} />
      </div>
      {dialog === 'edit' && <UpstreamDialog upstream={upstream} onClose={close} />}
      {dialog === 'remove' && <RemoveDialog name={name} onClose={close} />}
    </Page>
  )
}

function RemoveDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const navigate = useNavigate()
  const remove = useRemoval(['upstreams', 'tools'], removeUpstream, {
    said: `${name} is removed.`,
    leave: () => navigate(to.upstreams()),
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
      <p>Its tools stay in the lists, because calls name them, and cannot be called any more.</p>
    </ConfirmDialog>
  )
}
