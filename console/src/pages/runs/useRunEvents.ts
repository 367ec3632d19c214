// A run's events as they happen. The browser opens the stream again after a break and says where it was; it ends when
// the run has.
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { EVENT_TYPES } from '../../api/events'
import type { RunEvent } from './queries'
import { hear, NOTHING_HEARD } from './turns'

export type Following = 'connecting' | 'live' | 'broken' | 'ended'

const GATHER_MS = 300
const OPEN_AGAIN_MS = 5_000
const KEPT_MAX = 2_000
// The run of a lone call has no events of its own that would say that it ended.
const QUIET_MS = 1_500

const ENDS: readonly string[] = ['run.completed', 'run.failed', 'run.cancelled']

interface Followed {
  events: readonly RunEvent[]
  /** What the run's model has said of the answer that it is at. */
  words: string
  following: Following
}

export function useRunEvents(run: string, isEnded: boolean): Followed {
  const client = useQueryClient()
  const [events, setEvents] = useState<readonly RunEvent[]>([])
  const [words, setWords] = useState('')
  const [following, setFollowing] = useState<Following>('connecting')
  // That the run ended must not open its stream anew: what is heard stays, and the one that is open comes to its end.
  const ended = useRef(isEnded)
  const settle = useRef<() => void>(() => undefined)
  useEffect(() => {
    ended.current = isEnded
    settle.current()
  }, [isEnded])
  useEffect(() => {
    let gathering: ReturnType<typeof setTimeout> | undefined
    let again: ReturnType<typeof setTimeout> | undefined
    let quiet: ReturnType<typeof setTimeout> | undefined
    let source: EventSource | undefined
    let last = 0
    let waiting: RunEvent[] = []
    let spoken = NOTHING_HEARD
    let speaking: ReturnType<typeof setTimeout> | undefined
    let isOpen = false
    const end = () => {
      source?.close()
      setFollowing('ended')
    }
    const rest = () => {
      clearTimeout(quiet)
      if (isOpen && ended.current) quiet = setTimeout(end, QUIET_MS)
    }
    settle.current = rest
    const heard = (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as RunEvent
      last = Math.max(last, event.seq ?? 0)
      waiting.push(event)
      spoken = hear(spoken, event)
      rest()
      // Those of a run below are told here too, with its id.
      if (ENDS.includes(event.type) && !(event.data as { run_id?: string }).run_id) end()
      gathering ??= setTimeout(() => {
        gathering = undefined
        const heardNow = waiting
        waiting = []
        setEvents((before) => [...before, ...heardNow].slice(-KEPT_MAX))
        setWords(spoken.words)
        // What was heard before the page was read is in it.
        if (!ended.current) void client.invalidateQueries({ queryKey: ['runs'] })
      }, GATHER_MS)
    }
    // Words come too often for the list, and nothing has to be read again because of them.
    const said = (message: MessageEvent<string>) => {
      spoken = hear(spoken, JSON.parse(message.data) as RunEvent)
      speaking ??= setTimeout(() => {
        speaking = undefined
        setWords(spoken.words)
      }, GATHER_MS)
    }
    const open = () => {
      const opened = new EventSource(`/api/v1/runs/${encodeURIComponent(run)}/events?after=${last}`)
      source = opened
      for (const type of EVENT_TYPES) opened.addEventListener(type, heard)
      opened.addEventListener('model.delta', said)
      opened.addEventListener('session_ended', () => void client.invalidateQueries({ queryKey: ['session'] }))
      opened.onopen = () => {
        isOpen = true
        setFollowing('live')
        rest()
      }
      opened.onerror = () => {
        // The server closes the stream of a run that ended once all is told.
        if (isOpen && ended.current) return end()
        setFollowing('broken')
        // A refusal closes it for good; after a break the browser comes back by itself, with `Last-Event-ID`.
        if (opened.readyState === EventSource.CLOSED) again = setTimeout(open, OPEN_AGAIN_MS)
      }
    }
    setEvents([])
    setWords('')
    open()
    return () => {
      source?.close()
      for (const timer of [gathering, speaking, again, quiet]) clearTimeout(timer)
    }
  }, [run, client])
  return { events, words, following }
}
