// The secret part of a link. It lies behind the `#`, so no server and no log ever sees it; once read, it leaves the
// address, so that neither the history nor a picture of the screen keeps it.
import { useEffect, useState } from 'react'

export function useFragment(prefix = ''): string {
  const [token] = useState(() => {
    const written = window.location.hash.slice(1)
    return written.startsWith(prefix) ? written.slice(prefix.length) : ''
  })
  useEffect(() => {
    if (token !== '') window.history.replaceState(window.history.state, '', window.location.pathname)
  }, [token])
  return token
}

/** Where to go after the sign-in: an address of this console, never another host's. */
export function safeNext(next: string | undefined): string {
  return next !== undefined && /^\/(?![/\\])/.test(next) ? next : '/'
}
