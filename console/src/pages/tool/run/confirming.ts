// Whether the person may confirm a call that they asked for themselves. The server decides in any case; this says
// beforehand what it would say.
import { useQuery } from '@tanstack/react-query'
import { type Me, may, useMe } from '../../../app/session'
import { settingsQuery } from '../queries'

/** Why not, or nothing. */
export function whyNotConfirm(me: Pick<Me, 'permissions'>, separation: boolean): string | undefined {
  if (separation) return 'Here, whoever asks does not decide: somebody else with the role approver does.'
  if (me.permissions.includes('calls.confirm') || me.permissions.includes('approvals.decide')) return undefined
  return 'Somebody with the role approver decides; this page shows it at once.'
}

export function useWhyNotConfirm(): string | undefined {
  const me = useMe()
  const settings = useQuery({ ...settingsQuery(), enabled: may(me, 'agents.read') }).data
  return whyNotConfirm(me, settings?.separation === true)
}
