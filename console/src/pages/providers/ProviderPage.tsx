// One provider: where it is, its key and prices, who asks it, and a question to try it with.
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { KeyRound } from 'lucide-react'
import { useState } from 'react'
import { ApiError } from '../../api/errors'
import { useNames } from '../../app/names'
import { useRemoval } from '../../app/removal'
import { type Me, may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Button } from '../../ui/Button'
import { Checkbox } from '../../ui/Checkbox'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { Empty } from '../../ui/Empty'
import { Fact, Facts } from '../../ui/Facts'
import { Json } from '../../ui/Json'
import { MenuButton } from '../../ui/MenuButton'
import { notify } from '../../ui/Notices'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import { SkeletonRows } from '../../ui/Skeleton'
import { Time } from '../../ui/Time'
import { SpecDialog } from '../agents/SpecDialog'
import { KeyDialog } from './KeyDialog'
import { addressOf, hostOf, KINDS, providerForm } from './kinds'
import { Marks } from './ProvidersPage'
import css from './providers.module.css'
import { providerQuery, removeProvider, type Shown, saveProvider, secretsQuery, useProviderChange } from './queries'
import { Try } from './Try'

export function ProviderPage() {
  const { name } = useParams({ from: '/shell/providers/$name' })
  const provider = useQuery(providerQuery(name))
  if (provider.isPending) {
    return (
      <Page title={name} mono>
        <SkeletonRows />
      </Page>
    )
  }
  if (provider.isError && !provider.data) {
    const isGone = provider.error instanceof ApiError && provider.error.status === 404
    return (
      <Page title={name} mono>
        {isGone ? (
          <Empty title="There is no such provider" command="toolgate provider list">
            Agents that name a model of it fail until somebody adds it.{' '}
            <Link {...to.providers()}>All model providers</Link>
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={provider.error} retry={() => void provider.refetch()} />
          </Body>
        )}
      </Page>
    )
  }
  return <ShownProvider key={name} provider={provider.data} />
}

function ShownProvider({ provider }: { provider: Shown }) {
  const me = useMe()
  const nameOf = useNames()
  const [dialog, setDialog] = useState<'edit' | 'key' | 'remove'>()
  const save = useProviderChange(saveProvider)
  const why = reasonAgainst(me, provider)
  const address = addressOf(provider)
  const close = () => setDialog(undefined)
  return (
    <Page
      title={provider.name}
      mono
      badges={<Marks provider={provider} />}
      actions={
        <>
          {provider.secret && (
            <Button
              icon={<KeyRound aria-hidden="true" />}
              disabledReason={may(me, 'secrets.user') ? undefined : 'Setting secrets needs the role member'}
              onPress={() => setDialog('key')}
            >
              Set its key
            </Button>
          )}
          <Button disabledReason={why} onPress={() => setDialog('edit')}>
            Edit
          </Button>
          <MenuButton
            label="More for this provider"
            acts={[{ id: 'remove', label: 'Remove…', disabledReason: why, act: () => setDialog('remove') }]}
          />
        </>
      }
    >
      <div className={css.parts}>
        <Section title="What it is">
          <Facts>
            <Fact name="Kind">
              <code>{provider.kind}</code> <span className={css.quiet}>{KINDS[provider.kind]?.label}</span>
            </Fact>
            {address !== undefined && (
              <Fact name="Where">
                {revealed(address)} {!provider.base_url && <span className={css.quiet}>the vendor’s own</span>}
              </Fact>
            )}
            {!provider.scripted && (
              <Fact name="Key">
                {provider.secret ? <Key name={provider.secret} /> : <span className={css.quiet}>it needs none</span>}
              </Fact>
            )}
            <Fact name="Asked by">
              {provider.agents.length === 0 ? (
                <span className={css.quiet}>no agent yet: write {provider.name}/MODEL as an agent’s model</span>
              ) : (
                provider.agents.map((agent, index) => (
                  <span key={agent}>
                    {index > 0 && ', '}
                    <Link {...to.agent(agent)}>{revealed(agent)}</Link>
                  </span>
                ))
              )}
            </Fact>
            <Fact name="Saved">
              <Time at={provider.updated_at} /> by {revealed(nameOf(provider.saved_by))}, revision {provider.revision}
            </Fact>
          </Facts>
        </Section>
        <Try provider={provider} />
        <Section
          title="Prices"
          note="For a million tokens, in the organisation’s currency. Nothing a provider reports is believed."
        >
          <Prices provider={provider} />
        </Section>
        {provider.script && (
          <Section title="Script" note="The first turn that fits and is not used up answers.">
            <Json value={provider.script} openDepth={4} />
          </Section>
        )}
      </div>
      {dialog === 'edit' && (
        <SpecDialog
          title={`Edit ${provider.name}`}
          component="Provider"
          shaped={providerForm}
          value={specOf(provider)}
          save={async (spec) => {
            await save.mutateAsync(spec)
            notify(`${provider.name} is changed.`)
          }}
          onClose={close}
        />
      )}
      {dialog === 'key' && provider.secret && (
        <KeyDialog provider={provider.name} secret={provider.secret} host={hostOf(provider) ?? ''} onClose={close} />
      )}
      {dialog === 'remove' && <RemoveDialog provider={provider} onClose={close} />}
    </Page>
  )
}

function reasonAgainst(me: Me, { offered }: Shown): string | undefined {
  if (!may(me, 'agents.manage')) return 'Authors and administrators manage providers'
  return offered ? 'It is the operator’s: add one of the same name to stand in front of it' : undefined
}

/** What of a provider can be written. */
function specOf({ name, kind, base_url, secret, script, prices }: Shown): Parameters<typeof saveProvider>[0] {
  const spec = { name, kind, base_url, secret, script, prices }
  return Object.fromEntries(
    Object.entries(spec).filter(([, value]) => value !== null && value !== undefined),
  ) as typeof spec as Parameters<typeof saveProvider>[0]
}

/** Whether the secret is there, as far as this person sees. */
function Key({ name }: { name: string }) {
  const me = useMe()
  const secrets = useQuery({ ...secretsQuery(), enabled: may(me, 'secrets.user') })
  const kept = secrets.data?.items.filter((secret) => secret.name === name) ?? []
  return (
    <>
      <code>{revealed(name)}</code>{' '}
      <span className={css.quiet}>
        {kept.length > 0
          ? `set ${kept.map(({ scope }) => (scope === 'org' ? 'for the organisation' : scope === 'user' ? 'for you' : 'for the workspace')).join(' and ')}`
          : secrets.isSuccess
            ? 'not set where you can see it'
            : ''}
      </span>
    </>
  )
}

function Prices({ provider: { prices, scripted } }: { provider: Shown }) {
  const models = Object.entries(prices ?? {})
  if (models.length === 0) {
    return (
      <p className={css.quiet}>
        None. What its answers cost is{' '}
        {scripted ? 'nothing that anybody pays' : 'unknown, and runs with a budget end before they ask'}.
      </p>
    )
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
    <div className={css.scroll} role="region" aria-label="Table of prices" tabIndex={0}>
      <table className={css.prices}>
        <thead>
          <tr>
            <th>Model</th>
            <th>Input</th>
            <th>Cached input</th>
            <th>Output</th>
          </tr>
        </thead>
        <tbody>
          {models.map(([model, { input, cached_input, output }]) => (
            <tr key={model}>
              <th scope="row">
                <code>{revealed(model)}</code>
              </th>
              <td>{input}</td>
              <td>{cached_input ?? '—'}</td>
              <td>{output}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function RemoveDialog({ provider: { name, agents }, onClose }: { provider: Shown; onClose: () => void }) {
  const navigate = useNavigate()
  const [force, setForce] = useState(false)
  const remove = useRemoval(['providers'], removeProvider, {
    said: `${name} is removed.`,
    leave: () => navigate(to.providers()),
  })
  const asked = agents.length > 0
  return (
    <ConfirmDialog
      title={`Remove ${name}?`}
      confirm="Remove"
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate({ provider: name, force })}
      onClose={onClose}
    >
      <p>Its secret stays where it is. What was asked of it stays in the log.</p>
      {asked && (
        <Checkbox isSelected={force} onChange={setForce}>
          Also though {agents.join(', ')} {agents.length === 1 ? 'asks' : 'ask'} its models: runs of{' '}
          {agents.length === 1 ? 'it' : 'them'} fail until there is another
        </Checkbox>
      )}
    </ConfirmDialog>
  )
}
