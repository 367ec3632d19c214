// People of the tenant: who may use it, and who was invited.
import { getRouteApi } from '@tanstack/react-router'
import { UserRoundPlus } from 'lucide-react'
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { Button } from '../../ui/Button'
import { Empty } from '../../ui/Empty'
import { Page } from '../../ui/Page'
import { Tabs } from '../../ui/Tabs'
import { Invitations } from './Invitations'
import { InviteDialog } from './InviteDialog'
import { Users } from './Users'

const route = getRouteApi('/shell/people')

export function PeoplePage() {
  const me = useMe()
  const { tab = 'users' } = route.useSearch()
  const navigate = route.useNavigate()
  const [inviting, setInviting] = useState(false)
  if (!may(me, 'members.manage')) {
    return (
      <Page title="People">
        <Empty title="You may not manage people">An administrator has the permission members.manage for it.</Empty>
      </Page>
    )
  }
  return (
    <Page
      title="People"
      actions={
        <Button kind="primary" icon={<UserRoundPlus aria-hidden="true" />} onPress={() => setInviting(true)}>
          Invite
        </Button>
      }
    >
      <Tabs
        label="People"
        chosen={tab}
        onChoose={(chosen) => void navigate({ search: { tab: chosen }, replace: true })}
        tabs={[
          { id: 'users', label: 'Users', content: () => <Users /> },
          { id: 'invitations', label: 'Invitations', content: () => <Invitations /> },
        ]}
      />
      {inviting && <InviteDialog onClose={() => setInviting(false)} />}
    </Page>
  )
}
