// Everything else that holds for a tool: where it comes from, what it may, what it needs.
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { isObject } from '../../form/json'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { Badge } from '../../ui/Badge'
import { CopyId } from '../../ui/CopyId'
import { ClassBadge, RiskBadge } from '../../ui/domain'
import { Fact } from '../../ui/Facts'
import { Json } from '../../ui/Json'
import { Time } from '../../ui/Time'
import { MarkBadge } from '../tools/Marks'
import { keys } from '../tools/standing'
import type { Tool } from './definition'
import { toolQueries } from './queries'
import css from './ToolPage.module.css'

const KIB = 1_024

export function DetailsTab({ tool }: { tool: Tool }) {
  const { raw } = tool
  const labels = isObject(raw.labels) ? raw.labels : undefined
  return (
    <div className={css.details}>
      <Group title="Where it comes from">
        <Fact name="Origin">
          {tool.origin}
          {tool.shared && ', shared by all tenants'}
          {tool.overridden && ', adjusted here'}
        </Fact>
        <Fact name="Published">
          {tool.createdAt && <Time at={tool.createdAt} />} by <code>{tool.publishedBy}</code>
        </Fact>
        <Fact name="Category">{revealed(tool.category)}</Fact>
        <Fact name="Tags">{tool.tags.length > 0 ? revealed(tool.tags.join(', ')) : 'none'}</Fact>
        <Fact name="Runner">
          <code>{tool.runner}</code>
        </Fact>
        <Fact name="Wire name">
          <CopyId id={tool.wireName} what="wire name" />
        </Fact>
        <Fact name="Definition">
          <CopyId id={tool.definitionDigest} short what="definition digest" />
        </Fact>
        <Fact name="Behaviour">
          <CopyId id={tool.behaviourDigest} short what="behaviour digest" />
        </Fact>
      </Group>
      <Group title="What it may">
        <Fact name="Reach">
          <ClassBadge egressClass={tool.egressClass} />
        </Fact>
        <Fact name="Risk">
          <RiskBadge risk={tool.risk} />
        </Fact>
        <Fact name="Hosts">{tool.hosts.length > 0 ? <code>{tool.hosts.join(', ')}</code> : 'none named'}</Fact>
        <Fact name="Arguments choose where data goes">{tool.sink === 'open' ? 'yes' : 'no'}</Fact>
        <Fact name="Approval">
          {tool.asks
            ? 'every call waits for a person'
            : tool.alwaysAsks
              ? 'calls by agents wait for a person'
              : 'not required by itself'}
        </Fact>
        {tool.requiredPermission && (
          <Fact name="Needs the permission">
            <code>{tool.requiredPermission}</code>
          </Fact>
        )}
        <Fact name="Visibility">{tool.visibility}</Fact>
      </Group>
      <Group title="Limits">
        <Fact name="Time">{duration(tool.timeoutMs)}</Fact>
        <Fact name="Output">{(tool.maxOutputBytes / KIB).toLocaleString('en')} KiB</Fact>
        <Fact name="Kept answers">
          {tool.cache === 'none' ? 'none' : tool.cache === 'ttl' ? `for ${tool.cacheTtlS} s` : 'for ever'}
        </Fact>
        <Fact name="Repeating changes nothing more">{tool.idempotent ? 'yes' : 'not promised'}</Fact>
        {raw.cost !== null && raw.cost !== undefined && (
          <Fact name="Price">
            <Json value={raw.cost} />
          </Fact>
        )}
        {labels && (
          <Fact name="Labels">
            <Json value={labels} />
          </Fact>
        )}
      </Group>
      <Secrets tool={tool} />
    </div>
  )
}

const SCOPES: Readonly<Record<string, string>> = {
  user: 'your own',
  workspace: 'your workspace’s',
  org: 'the whole organisation’s',
}

function Secrets({ tool }: { tool: Tool }) {
  const standing = useQuery(toolQueries.preflight(tool.name)).data?.secrets ?? []
  if (tool.secrets.length === 0) {
    return (
      <Group title="Keys">
        <Fact name="Secrets">It needs none.</Fact>
      </Group>
    )
  }
  return (
    <Group title="Keys">
      {tool.secrets.map(({ name, required, purpose }) => {
        const found = standing.find((one) => one.name === name)
        return (
          <Fact key={name} name={<code>{name}</code>}>
            {required ? '' : 'optional; '}
            {found?.scope ? `${SCOPES[found.scope] ?? found.scope} would be used` : 'not set'}{' '}
            <MarkBadge mark={found ? keys([found]) : undefined} />
            {purpose && <span className={css.rules}>{revealed(purpose)}</span>}
          </Fact>
        )
      })}
      <Fact name="Who sees the value">
        <Badge tone="idle" shape="none">
          {['python', 'script', 'wasm', 'external', 'mcp'].includes(tool.runner) ? 'the tool’s code' : 'Toolgate alone'}
        </Badge>
      </Fact>
    </Group>
  )
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2>{title}</h2>
      <dl className={css.group}>{children}</dl>
    </section>
  )
}
