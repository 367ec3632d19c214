// Who is signed in, for every page behind the sign-in.
import { createContext, type ReactNode, useContext } from 'react'
import type { Schemas } from '../api/client'

export type Me = Schemas['Me']

const SessionContext = createContext<Me | undefined>(undefined)

export function SessionProvider({ me, children }: { me: Me; children: ReactNode }) {
  return <SessionContext value={me}>{children}</SessionContext>
}

export function useMe(): Me {
  const me = useContext(SessionContext)
  if (!me) throw new Error('a page behind the sign-in was shown without a session')
  return me
}

export function may(me: Me, permission: string): boolean {
  return me.permissions.includes(permission)
}
