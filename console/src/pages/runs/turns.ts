// What a model said in a turn: from what is kept, and from the log while it speaks.
import type { RunEvent, Turn } from './queries'

export interface Spoken {
  text: string
  /** There is more than is shown. */
  isCut: boolean
  /** It goes on speaking. */
  isLive: boolean
  /** What it took: `240 tokens in, 18 out, cost 0.01`. */
  took: string
  model: string
}

export function spokenOf(turn: Turn): Spoken {
  // A script without any took none.
  const isCounted = turn.state === 'answered' && turn.input_tokens + turn.output_tokens > 0
  const took = isCounted ? tookOf(turn) : ''
  return { text: turn.text, isCut: turn.is_cut, isLive: false, took, model: turn.model }
}

function tookOf({ input_tokens, cached_tokens, output_tokens, cost, stop }: Turn): string {
  const number = (of: number) => of.toLocaleString('en')
  const cached = cached_tokens > 0 ? ` (${number(cached_tokens)} cached)` : ''
  const priced = cost && Number(cost) > 0 ? `, cost ${cost}` : ''
  const ended = stop === 'length' ? ', cut off at its limit' : stop === 'refusal' ? ', refused' : ''
  return `${number(input_tokens)} tokens in${cached}, ${number(output_tokens)} out${priced}${ended}`
}

interface Told {
  turn?: unknown
  model?: unknown
  message?: unknown
}

export interface Question {
  turn: number
  from: number
  spoken: Spoken
}

/** The question that the run's own model is at, with what it has said so far. */
export function liveTurn(events: readonly RunEvent[], words: string): Question | undefined {
  let live: Question | undefined
  for (const { type, at, data, call_id } of events) {
    const { turn, model } = data as Told
    if (call_id) continue
    if (type === 'model.requested' && typeof turn === 'number') {
      const spoken = {
        text: words,
        isCut: false,
        isLive: true,
        took: '',
        model: typeof model === 'string' ? model : '',
      }
      live = { turn, from: Date.parse(at), spoken }
    }
    if (type === 'model.completed' || type === 'model.failed') live = undefined
  }
  return live
}

export interface Heard {
  words: string
  /** Behind which event the last part stands, and which part it was: after a break they come again. */
  after: number
  part: number
}

export const NOTHING_HEARD: Heard = { words: '', after: 0, part: 0 }

/** What a model has said of the answer that it is at. */
export function hear(heard: Heard, { type, data, after_seq, part, call_id }: RunEvent): Heard {
  if (type === 'model.delta') {
    const [after, number] = [after_seq ?? 0, part ?? 0]
    const isOld = after < heard.after || (after === heard.after && number <= heard.part)
    const { text } = data as { text?: unknown }
    if (isOld || typeof text !== 'string') return heard
    return { words: heard.words + text, after, part: number }
  }
  const isOwn = !call_id && ['model.requested', 'model.completed', 'model.failed'].includes(type)
  return isOwn ? { ...heard, words: '' } : heard
}

/** Questions of the run's own model that came to nothing: nothing is kept of them but what the log says. */
export function failedQuestions(events: readonly RunEvent[]): readonly (Question & { until: number })[] {
  const failed: (Question & { until: number })[] = []
  const asked = new Map<number, number>()
  for (const { type, at, data, call_id } of events) {
    const { turn, model, message } = data as Told
    if (call_id || typeof turn !== 'number') continue
    if (type === 'model.requested') asked.set(turn, Date.parse(at))
    if (type !== 'model.failed') continue
    const until = Date.parse(at)
    const text = typeof message === 'string' ? message : ''
    const spoken = { text, isCut: false, isLive: false, took: '', model: typeof model === 'string' ? model : '' }
    failed.push({ turn, from: asked.get(turn) ?? until, until, spoken })
  }
  return failed
}
