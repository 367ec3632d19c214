// One call as it goes on: its record, and what its tool says meanwhile.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useReducer } from 'react'
import { EVENT_TYPES } from '../../../api/events'
import type { LiveEvent } from '../../../api/live'
import { FINAL, toolQueries } from '../queries'
import { type Heard, hear, NOTHING_HEARD } from './heard'

// Each of these changes the call's record.
const TURNS = EVENT_TYPES.filter((type) => type.startsWith('tool.') || type.startsWith('approval.'))

export function useLiveCall(id: string) {
  const client = useQueryClient()
  const query = useQuery(toolQueries.call(id))
  const [heard, say] = useReducer(taken, NOTHING_HEARD)
  // Another call's record stays in sight while this one's is asked for; it must not be taken for it.
  const call = query.data?.id === id ? query.data : undefined
  const runId = call?.run_id
  const isOpen = call !== undefined && !FINAL.has(call.status)
  useEffect(() => {
    if (id !== '') say('another')
  }, [id])
  useEffect(() => {
    if (!isOpen || !runId) return
    const source = new EventSource(`/api/v1/runs/${encodeURIComponent(runId)}/events`)
    const read = (message: MessageEvent<string>) => JSON.parse(message.data) as LiveEvent
    source.addEventListener('tool.output_appended', (message) => {
      const event = read(message)
      if (event.call_id === id) say(event)
    })
    const turned = (message: MessageEvent<string>) => {
      if (read(message).call_id !== id) return
      void client.invalidateQueries({ queryKey: toolQueries.call(id).queryKey })
      void client.invalidateQueries({ queryKey: toolQueries.card(id).queryKey })
    }
    for (const turn of TURNS) source.addEventListener(turn, turned)
    return () => source.close()
  }, [id, runId, isOpen, client])
  return { call, isOpen, said: heard.text, error: query.error, refetch: query.refetch }
}

function taken(heard: Heard, said: LiveEvent | 'another'): Heard {
  return said === 'another' ? NOTHING_HEARD : hear(heard, said)
}
