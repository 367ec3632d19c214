// An event in a few words: what its data adds to its type.
import type { CallEvent } from './queries'

const WORDS_MAX = 160

/** `principal`: whose the whole is; it need not be said again. */
export function eventWords(
  { data, actor, type }: Pick<CallEvent, 'data' | 'actor'> & { type?: string },
  principal: string,
  nameOf: (actor: string) => string = (actor) => actor,
): string {
  const told = data as Record<string, unknown>
  const text = (name: string) =>
    typeof told[name] === 'string' || typeof told[name] === 'number' ? String(told[name]) : ''
  const title = text('title')
  const reason = text('reason')
  const parts = [
    ...(type?.startsWith('model.') ? modelWords(type, told) : []),
    ...(type === 'limit.reached' ? limitWords(told) : []),
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

/** What a question to a model took: `answer 2, 1 call, 240 tokens in (200 cached), 18 out, cost 0.01`. */
function modelWords(type: string, told: Record<string, unknown>): string[] {
  const number = (of: unknown) => (typeof of === 'number' ? of : 0)
  const count = (of: number, noun: string) => `${of} ${noun}${of === 1 ? '' : 's'}`
  if (typeof told.turn !== 'number') return []
  const turn = told.turn + 1
  if (type === 'model.requested') {
    const model = typeof told.model === 'string' ? told.model : ''
    return [
      `question ${turn}${model && ` to ${model}`}`,
      count(number(told.messages), 'message'),
      count(number(told.tools), 'tool'),
    ]
  }
  if (type === 'model.failed') return [`question ${turn}`, typeof told.message === 'string' ? told.message : '']
  if (type !== 'model.completed') return []
  const usage = (told.usage ?? {}) as Record<string, unknown>
  const [read, cached, written] = [usage.input_tokens, usage.cached_tokens, usage.output_tokens].map(number)
  return [
    `answer ${turn}`,
    told.kind === 'scripted' ? 'scripted: no model said it' : '',
    number(told.calls) > 0 ? count(number(told.calls), 'call') : '',
    `${read} tokens in${(cached ?? 0) > 0 ? ` (${cached} cached)` : ''}`,
    `${written} out`,
    typeof told.cost === 'string' && told.cost !== '0' ? `cost ${told.cost}` : '',
    number(told.tries) > 1 ? `${told.tries} tries` : '',
  ]
}

/** Which limit, and how much of it: `max_iterations, 10 of 10`. */
function limitWords(told: Record<string, unknown>): string[] {
  const shown = (of: unknown) => (typeof of === 'string' || typeof of === 'number' ? String(of) : '')
  const [limit, most, used] = [told.limit, told.most, told.used].map(shown)
  return [limit ?? '', used && most ? `${used} of ${most}` : '', shown(told.message)]
}
