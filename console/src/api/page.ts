// What every request says of the page that it comes from: in which tenant and as whom it was opened, so that nothing is
// done elsewhere or as somebody else, and whether anybody is there, so that a page left open keeps no session from idling out.
import type { Schemas } from './client'

type Me = Schemas['Me']

// A page asks again at least every half minute, so whoever reads and scrolls is seen.
const ATTENDED_MS = 60_000
const ACTS = ['pointerdown', 'keydown', 'wheel', 'touchstart'] as const

let opened: Pick<Me, 'tenant' | 'principal'> | undefined
// Whoever opened the page is there.
let attendedAt = Date.now()

for (const act of ACTS) {
  globalThis.addEventListener?.(
    act,
    () => {
      attendedAt = Date.now()
    },
    { capture: true, passive: true },
  )
}

/** The session that the page works in: the first it hears of, until somebody signs in here or it is loaded anew. */
export function opensAs(me: Me): void {
  opened ??= { tenant: me.tenant, principal: me.principal }
}

/** Somebody signed in in this page: what was opened before is gone. */
export function opensAnew(): void {
  opened = undefined
}

/** Whether another tab went on elsewhere, or as somebody else. */
export function isElsewhere(me: Me): boolean {
  return opened !== undefined && (opened.tenant !== me.tenant || opened.principal !== me.principal)
}

/** Marks a request that goes out now. */
export function marked(request: Request): Request {
  if (opened) {
    request.headers.set('Toolgate-Tenant', opened.tenant)
    request.headers.set('Toolgate-Principal', opened.principal)
  }
  if (request.method === 'GET' && Date.now() - attendedAt > ATTENDED_MS) request.headers.set('Toolgate-Background', '1')
  return request
}
