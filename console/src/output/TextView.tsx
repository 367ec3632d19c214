// Text of any length, a part at a time.
import { useState } from 'react'
import { revealed } from '../lib/hidden'
import { looksLikeMarkdown, safeAddress } from '../lib/markdown'
import { Button } from '../ui/Button'
import { Markdown, WebLink } from '../ui/Markdown'
import css from './Output.module.css'

/** Letters shown at once: more would make the page wait. */
export const LETTERS_AT_ONCE = 20_000

export function TextView({ text }: { text: string }) {
  const [shown, setShown] = useState(LETTERS_AT_ONCE)
  if (text === '') return <p className={css.quiet}>Empty text.</p>
  const href = text.length < 2_000 && !/\s/.test(text) ? safeAddress(text) : undefined
  if (href !== undefined)
    return (
      <WebLink href={href} words={text}>
        {revealed(text)}
      </WebLink>
    )
  const part = text.slice(0, shown)
  return (
    <div className={css.text}>
      {looksLikeMarkdown(text) ? <Markdown text={part} /> : <p className={css.plain}>{revealed(part)}</p>}
      {text.length > shown && (
        <div className={css.more}>
          <span className={css.quiet}>
            {shown.toLocaleString('en')} of {text.length.toLocaleString('en')} letters
          </span>
          <Button size="small" onPress={() => setShown(shown + LETTERS_AT_ONCE)}>
            Show more
          </Button>
        </div>
      )}
    </div>
  )
}
