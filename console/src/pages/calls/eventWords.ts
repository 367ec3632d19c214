// An event in a few words: what its data adds to its type.
import type { CallEvent } from './queries'

const WORDS_MAX = 160

/** `principal`: whose the whole is; it need not be said again. */
export function eventWords(
  { data, actor }: Pick<CallEvent, 'data' | 'actor'>,
  principal: string,
  nameOf: (actor: string) => string = (actor) => actor,
): string {
  const told = data as Record<string, unknown>
  const text = (name: string) =>
    typeof told[name] === 'string' || typeof told[name] === 'number' ? String(told[name]) : ''
  const title = text('title')
  const reason = text('reason')
  const parts = [
    text('tool'),
    title && `“${title}”`,
    text('text').trim(),
    [text('code'), reason].filter(Boolean).join(' ') || text('decision'),
    told.cached === true ? 'from the cache' : '',
    actor.startsWith('system') || actor === principal ? '' : `by ${nameOf(actor)}`,
  ].filter(Boolean)
  const words = parts.join(', ')
  return words.length > WORDS_MAX ? `${words.slice(0, WORDS_MAX)}…` : words
}
