// What is found about a graph, gravest first, with what to do.
import type { UseQueryResult } from '@tanstack/react-query'
import { CircleCheckBig } from 'lucide-react'
import type { Schemas } from '../../api/client'
import { sentence } from '../../api/errors'
import { SeverityBadge } from '../../ui/domain'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { SkeletonRows } from '../../ui/Skeleton'
import css from './workflows.module.css'

export function Findings({ name, checked }: { name: string; checked: UseQueryResult<Schemas['CheckedWorkflow']> }) {
  if (checked.isPending) return <SkeletonRows rows={3} />
  if (checked.isError) return <Problem error={checked.error} retry={() => void checked.refetch()} />
  if (checked.data.findings.length === 0) {
    return (
      <Empty
        icon={<CircleCheckBig aria-hidden="true" />}
        title="Nothing is found"
        command={`toolgate workflow check ${name}`}
      >
        By the tools and agents that you have now. It is looked at again whenever this page is opened.
      </Empty>
    )
  }
  return <FindingList findings={checked.data.findings} />
}

export function FindingList({ findings }: { findings: readonly Schemas['Finding'][] }) {
  return (
    <ul className={css.findings}>
      {findings.map(({ severity, code, pointer, message, fix }) => (
        <li key={`${code} ${pointer} ${message}`}>
          <SeverityBadge severity={severity} />
          <div>
            <p>
              <Prose text={sentence(message)} />
            </p>
            {fix !== '' && (
              <p className={css.quiet}>
                <Prose text={sentence(fix)} />
              </p>
            )}
            <p className={css.code}>
              <code>{code}</code> {pointer !== '' && <code>{pointer}</code>}
            </p>
          </div>
        </li>
      ))}
    </ul>
  )
}
