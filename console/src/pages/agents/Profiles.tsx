// Profiles: what each of them demands, which of them binds this agent.
import { useInfiniteQuery } from '@tanstack/react-query'
import { Plus, ScrollText } from 'lucide-react'
import { useState } from 'react'
import { may, useMe } from '../../app/session'
import { Badge } from '../../ui/Badge'
import { Button } from '../../ui/Button'
import { ConfirmDialog } from '../../ui/ConfirmDialog'
import { Empty } from '../../ui/Empty'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import css from './agents.module.css'
import { profileFacts } from './profile'
import {
  type Agent,
  assignmentsQuery,
  deleteProfile,
  type Profile,
  profilesQuery,
  saveProfile,
  useAgentChange,
} from './queries'
import { SpecDialog } from './SpecDialog'

export function Profiles({ agent }: { agent: Agent }) {
  const me = useMe()
  const profiles = useInfiniteQuery(profilesQuery())
  const assignments = useInfiniteQuery(assignmentsQuery(agent.name)).data?.pages.flatMap(({ items }) => items) ?? []
  const [deleting, setDeleting] = useState<string>()
  const [editing, setEditing] = useState<Profile | 'new'>()
  const saved = useAgentChange(saveProfile, 'The profile is saved; it binds from the next call on.')
  const deleted = useAgentChange(deleteProfile, 'The profile is deleted.')
  if (profiles.isPending) return <SkeletonRows />
  if (profiles.isError) return <Problem error={profiles.error} retry={() => void profiles.refetch()} />
  const rows = profiles.data.pages.flatMap(({ items }) => items)
  const refused = may(me, 'tools.assign') ? undefined : 'Administrators write profiles'
  const uses = (name: string) => assignments.filter(({ profile }) => profile === name).map(({ tool }) => tool)
  return (
    <div className={css.profiles}>
      <div className={css.bar}>
        <Button icon={<Plus aria-hidden="true" />} onPress={() => setEditing('new')} disabledReason={refused}>
          New profile
        </Button>
      </div>
      {rows.length === 0 && (
        <Empty icon={<ScrollText aria-hidden="true" />} title="No profiles yet">
          A profile is a bundle of demands (approval, cost, rate, hosts) that an agent or one assignment can be put
          under.
        </Empty>
      )}
      {rows.map((profile) => (
        <section key={profile.name} className={css.profile} aria-label={profile.name}>
          <div className={css.row}>
            <code>{profile.name}</code>
            {agent.profile === profile.name && <Badge tone="info">binds this agent</Badge>}
          </div>
          <div className={css.facts}>
            {profileFacts(profile).map((fact) => (
              <span key={fact}>{fact}</span>
            ))}
            {uses(profile.name).length > 0 && <span>here for {uses(profile.name).join(', ')}</span>}
          </div>
          <div className={css.row}>
            <Button size="small" disabledReason={refused} onPress={() => setEditing(profile)}>
              Edit
            </Button>
            <Button size="small" disabledReason={refused} onPress={() => setDeleting(profile.name)}>
              Delete
            </Button>
          </div>
        </section>
      ))}
      {deleting !== undefined && (
        <ConfirmDialog
          title={`Delete the profile ${deleting}?`}
          confirm="Delete the profile"
          isPending={deleted.isPending}
          error={deleted.error}
          onConfirm={() => deleted.mutate(deleting, { onSuccess: () => setDeleting(undefined) })}
          onClose={() => {
            deleted.reset()
            setDeleting(undefined)
          }}
        >
          <p>What it demands is demanded no longer. One that still binds an agent or an assignment is not deleted.</p>
        </ConfirmDialog>
      )}
      {editing && (
        <SpecDialog
          title={editing === 'new' ? 'New profile' : `Edit ${editing.name}`}
          component="Profile"
          {...(editing === 'new' ? {} : { value: editing })}
          save={(spec: Parameters<typeof saveProfile>[0]) => saved.mutateAsync(spec)}
          onClose={() => setEditing(undefined)}
        />
      )}
    </div>
  )
}
