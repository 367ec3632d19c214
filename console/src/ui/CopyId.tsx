// An identifier: in mono, shortened where it is long, copied with a click.
import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button } from 'react-aria-components'
import css from './CopyId.module.css'

const SAID_MS = 1_500

export function CopyId({
  id,
  short = false,
  whole = false,
  what = 'id',
}: {
  id: string
  short?: boolean
  /** On several lines where it must be: what is shown once is shown entirely. */
  whole?: boolean
  what?: string
}) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const done = setTimeout(() => setCopied(false), SAID_MS)
    return () => clearTimeout(done)
  }, [copied])
  const shown = short && id.length > 12 ? `…${id.slice(-8)}` : id
  return (
    <Button
      className={whole ? `${css.id} ${css.whole}` : (css.id ?? '')}
      aria-label={copied ? 'Copied' : `Copy ${what} ${id}`}
      onPress={() => void navigator.clipboard.writeText(id).then(() => setCopied(true))}
    >
      <code title={id}>{shown}</code>
      {copied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
    </Button>
  )
}
