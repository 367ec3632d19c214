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
    type ? plainWords(type, told) : '',
    title && `“${title}”`,
    text('text').trim(),
    [text('code'), reason].filter(Boolean).join(' ') || text('decision'),
    told.cached === true ? 'from the cache' : '',
    actor.startsWith('system') || actor === principal ? '' : `by ${nameOf(actor)}`,
  ].filter(Boolean)
  const words = parts.join(', ')
  return words.length > WORDS_MAX ? `${words.slice(0, WORDS_MAX)}…` : words
}

/** What happened, of events whose data are ids alone. */
function plainWords(type: string, told: Record<string, unknown>): string {
  const isBelow = typeof told.run_id === 'string'
  const subject = isBelow ? `the run …${String(told.run_id).slice(-8)} below` : 'it'
  switch (type) {
    case 'run.started':
      return `${subject} began`
    case 'run.waiting':
      return told.approval_id ? 'it waits for an approval' : told.input_id ? 'it waits for an answer' : 'it waits'
    case 'run.resumed':
      return 'it goes on'
    case 'run.completed':
      return `${subject} ended`
    case 'run.failed':
      return typeof told.message === 'string' ? `${subject} failed: ${told.message}` : `${subject} failed`
    case 'run.cancelled':
      return isBelow ? 'cancelled, since the run above it ended' : 'it was cancelled'
    case 'tool.needs_approval':
      return 'a person must decide'
    case 'tool.approved':
      return 'it may run'
    case 'approval.requested':
      return typeof told.need === 'number' && told.need > 1 ? `${told.need} people must approve` : 'people are asked'
    case 'approval.decided':
      return told.state === 'approved' ? 'approved' : String(told.state ?? 'decided')
    case 'approval.rejected':
      return 'rejected'
    case 'approval.expired':
      return 'nobody decided in time'
    case 'input.requested':
      return 'people are asked a question'
    case 'input.submitted':
      return 'the question was answered'
    case 'step.started':
      return 'a step began'
    case 'step.completed':
      return 'a step ended'
    case 'step.failed':
      return 'a step failed'
    default:
      return ''
  }
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
