// What happens, as it happens: the tenant's event stream marks what the pages have read as stale.
//
// The browser itself opens the stream again after a break and says where it was. Who may not read all events is refused
// and keeps asking from time to time instead, so no page depends on the stream.
import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useSyncExternalStore } from 'react'
import type { Schemas } from './client'
import { EVENT_TYPES } from './events'

export type LiveEvent = Schemas['Event']
export type Connection = 'connecting' | 'live' | 'broken' | 'none'

// Which lists an event can change, by the first word of its type.
const KINDS: Record<string, readonly string[]> = {
  run: ['runs', 'home'],
  tool: ['calls', 'runs', 'home'],
  approval: ['approvals', 'calls', 'runs', 'home'],
  input: ['runs', 'home'],
}

const LIVE_KINDS = new Set(Object.values(KINDS).flat())

const GATHER_MS = 400
const OPEN_AGAIN_MS = 5_000

type Listener = (event: LiveEvent) => void
const listeners = new Set<Listener>()
const watchers = new Set<() => void>()
let connection: Connection = 'none'

function become(next: Connection) {
  if (connection === next) return
  connection = next
  for (const watcher of watchers) watcher()
}

/** Follows the tenant's events until the returned function is called. */
export function follow(client: QueryClient): () => void {
  const stale = new Set<string>()
  let gathering: ReturnType<typeof setTimeout> | undefined
  let again: ReturnType<typeof setTimeout> | undefined
  let source: EventSource | undefined
  let wasBroken = false

  const heard = (message: MessageEvent<string>) => {
    const event = JSON.parse(message.data) as LiveEvent
    for (const listener of listeners) listener(event)
    for (const kind of KINDS[event.type.split('.')[0] ?? ''] ?? []) stale.add(kind)
    // Many calls a second become one question.
    gathering ??= setTimeout(() => {
      gathering = undefined
      for (const kind of stale) void client.invalidateQueries({ queryKey: [kind] })
      stale.clear()
    }, GATHER_MS)
  }

  const open = () => {
    if (!wasBroken) become('connecting')
    const opened = new EventSource('/api/v1/events')
    source = opened
    for (const type of EVENT_TYPES) opened.addEventListener(type, heard)
    // The session idled out or was ended: whoever comes back signs in.
    opened.addEventListener('session_ended', () => void client.invalidateQueries({ queryKey: ['session'] }))
    opened.onopen = () => {
      // The stream tells what happens from here on. What pages read before it stood may already be old, and after a
      // break anything may be.
      if (wasBroken) void client.invalidateQueries()
      else for (const kind of LIVE_KINDS) void client.invalidateQueries({ queryKey: [kind] })
      wasBroken = false
      become('live')
    }
    opened.onerror = () => {
      wasBroken = true
      become('broken')
      // A refusal closes it for good; a break does not.
      if (opened.readyState !== EventSource.CLOSED) return
      again = setTimeout(open, OPEN_AGAIN_MS)
      void client.invalidateQueries({ queryKey: ['session'] })
    }
  }
  open()

  return () => {
    clearTimeout(gathering)
    clearTimeout(again)
    source?.close()
    become('none')
  }
}

export function useConnection(): Connection {
  return useSyncExternalStore(
    (changed) => {
      watchers.add(changed)
      return () => watchers.delete(changed)
    },
    () => connection,
  )
}

/** Calls `listener` for each event while the component is shown; pass one that stays the same. */
export function useLiveEvents(listener: Listener): void {
  useEffect(() => {
    listeners.add(listener)
    return () => {
      listeners.delete(listener)
    }
  }, [listener])
}
