// Characters that a reader would not see, or that would make them read something else, shown by their code.
import type { ReactNode } from 'react'
import css from './hidden.module.css'
import { BLANK, classOf, UNSEEN } from './unseen'

/** Line ends and tabs are laid out as what they are. */
const HIDDEN = `(?![\\t\\n\\r])${classOf(UNSEEN, BLANK)}`

/** The same one many times is one mark: a text of nothing else must not become a page of them. */
const RUNS = new RegExp(`(${HIDDEN})\\1*`, 'gu')

export function codeOf(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}

/** The text, with every hidden character as a mark of its own. */
export function revealed(text: string): ReactNode {
  const parts: ReactNode[] = []
  let from = 0
  for (const match of text.matchAll(RUNS)) {
    const [run, character = run] = match
    if (match.index > from) parts.push(text.slice(from, match.index))
    parts.push(
      <mark key={match.index} className={css.hidden} title="A character that cannot be seen">
        {codeOf(character)}
        {run.length > character.length && ` ×${run.length / character.length}`}
      </mark>,
    )
    from = match.index + run.length
  }
  if (parts.length === 0) return text
  parts.push(text.slice(from))
  return parts
}

/** The same where there is only text, as in a drawing. */
export function revealedText(text: string): string {
  return text.replaceAll(RUNS, (_, character: string) => codeOf(character))
}
