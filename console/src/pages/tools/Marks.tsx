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

export function Marks({ tool }: { tool: ToolRow }) {
  return (
    <>
      <MarkBadge mark={stops(tool)} />
      <MarkBadge mark={keys(tool.secrets)} />
      <MarkBadge mark={asks(tool)} />
    </>
  )
}
