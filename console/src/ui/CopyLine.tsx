// A line, or a block of them, to take along: what it says, and a button that copies it.
import { Check, Copy } from 'lucide-react'
import { useEffect, useState } from 'react'
import { Button } from './Button'
import css from './CopyLine.module.css'

const SAID_MS = 1_500

export function CopyLine({ text, what = 'text' }: { text: string; what?: string }) {
  return (
    <div className={css.line}>
      <pre>{text}</pre>
      <CopyButton text={text} what={what} />
    </div>
  )
}

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const done = setTimeout(() => setCopied(false), SAID_MS)
    return () => clearTimeout(done)
  }, [copied])
  return (
    <Button
      kind="quiet"
      size="small"
      aria-label={copied ? 'Copied' : `Copy ${what}`}
      icon={copied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
      onPress={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    />
  )
}
