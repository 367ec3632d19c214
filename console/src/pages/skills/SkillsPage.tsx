// The skills that the person has.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { BookOpenText } from 'lucide-react'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Empty } from '../../ui/Empty'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { type Column, Table } from '../../ui/Table'
import { Time } from '../../ui/Time'
import { Connections } from '../connections/Connections'
import { type SkillRow, skillsQuery } from './queries'

const COLUMNS: readonly Column<SkillRow>[] = [
  {
    id: 'name',
    label: 'Skill',
    width: 'minmax(140px, 1fr)',
    phone: true,
    cell: ({ name }) => <code>{revealed(name)}</code>,
  },
  {
    id: 'description',
    label: 'What it teaches',
    width: 'minmax(200px, 3fr)',
    cell: ({ description }) => revealed(description),
  },
  {
    id: 'arguments',
    label: 'Arguments',
    width: '84px',
    align: 'right',
    word: 'arguments',
    cell: ({ arguments: places }) => places?.length ?? 0,
  },
  {
    id: 'saved',
    label: 'Saved',
    width: '92px',
    align: 'right',
    word: 'saved',
    cell: ({ updated_at }) => <Time at={updated_at} />,
  },
]

export function SkillsPage() {
  const me = useMe()
  const navigate = useNavigate()
  const skills = useQuery({ ...skillsQuery(), enabled: may(me, 'tools.read') })
  const rows = skills.data?.items ?? []
  return (
    <Page title="Skills" count={skills.isSuccess && rows.length > 0 ? `${rows.length}` : undefined}>
      <Connections />
      {!may(me, 'tools.read') ? (
        <Empty title="You may not see skills">
          That needs the permission <code>tools.read</code>, which the role <code>viewer</code> has.
        </Empty>
      ) : skills.isError && rows.length === 0 ? (
        <Body narrow>
          <Problem error={skills.error} retry={() => void skills.refetch()} />
        </Body>
      ) : skills.isPending ? (
        <SkeletonRows />
      ) : rows.length === 0 ? (
        <Empty
          icon={<BookOpenText aria-hidden="true" />}
          title="No skills yet"
          command="toolgate skill add examples/skills/review"
        >
          A skill is a text that teaches a model a way of working: one file, <code>SKILL.md</code>. Agents name those
          they are given.
        </Empty>
      ) : (
        <Table
          label="Skills"
          columns={COLUMNS}
          cards
          rows={rows}
          rowKey={({ name }) => name}
          rowLink={({ name }) => `/skills/${encodeURIComponent(name)}`}
          onOpen={({ name }) => void navigate(to.skill(name))}
        />
      )}
    </Page>
  )
}
