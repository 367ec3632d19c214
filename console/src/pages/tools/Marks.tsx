// Badges of a tool that say what to expect of a call.
import { Badge } from '../../ui/Badge'
import type { ToolRow } from './queries'
import { asks, keys, type Mark, stops } from './standing'

export function MarkBadge({ mark }: { mark: Mark | undefined }) {
  if (!mark) return null
  return (
    <Badge tone={mark.tone} shape={mark.shape} title={mark.why}>
      {mark.words}
    </Badge>
  )
}

/** What cannot run at all needs no further words in a list. */
export function Marks({ tool }: { tool: ToolRow }) {
  const stop = stops(tool)
  return (
    <>
      <MarkBadge mark={stop} />
      {(!stop || stop.runs) && (
        <>
          <MarkBadge mark={keys(tool.secrets)} />
          <MarkBadge mark={asks(tool)} />
        </>
      )}
    </>
  )
}
