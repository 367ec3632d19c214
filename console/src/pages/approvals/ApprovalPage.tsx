// The page that a mail or a webhook links to: one call, to be decided on wherever one is.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { asApiError } from '../../api/errors'
import { useShortcuts } from '../../lib/shortcuts'
import { to } from '../../paths'
import { Empty } from '../../ui/Empty'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { ShortcutsHelp } from '../../ui/ShortcutsHelp'
import { SkeletonRows } from '../../ui/Skeleton'
import css from './ApprovalPage.module.css'
import { CardView } from './CardView'
import { KEYS } from './keys'
import { cardQuery } from './queries'

export function ApprovalPage() {
  const { id } = useParams({ from: '/shell/approvals/$id' })
  const card = useQuery(cardQuery(id))
  const [help, setHelp] = useState(false)
  useShortcuts({ '?': () => setHelp(true) })
  return (
    <Page title="Approval" actions={<Link {...to.approvals()}>All approvals</Link>}>
      {card.data ? (
        <div className={css.alone}>
          <CardView key={`${card.data.id} ${card.data.round}`} card={card.data} />
        </div>
      ) : card.isError ? (
        asApiError(card.error).status === 404 ? (
          <Empty title="There is no such approval, or it is not for you">
            You see what your workspaces ask for, and your own. If somebody sent you this link, ask them for the role
            approver in the workspace, or sign in as somebody who has it.
          </Empty>
        ) : (
          <Body narrow>
            <Problem error={card.error} retry={() => void card.refetch()} />
          </Body>
        )
      ) : (
        <SkeletonRows />
      )}
      {help && <ShortcutsHelp keys={KEYS} onClose={() => setHelp(false)} />}
    </Page>
  )
}
