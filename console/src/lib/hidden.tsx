// Characters that a reader would not see, or that would make them read something else, shown by their code.
import type { ReactNode } from 'react'
import css from './hidden.module.css'

// Controls but tab and line ends, format characters (zero width, bidi, tags), separators, variation selectors, fillers.
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: single code points, with the u flag
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\u{e0000}-\u{e0fff}]/gu

/** The same one many times is one mark: a text of nothing else must not become a page of them. */
const RUNS = new RegExp(`(${HIDDEN.source})\\1*`, 'gu')

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
