// OpenAI has two APIs, and each wants its own form of the same function.

/**
 * The form for Responses out of the one for Chat Completions: the members of `function` beside `type`. Responses takes
 * a schema as strict where nothing is said, and refuses what strict does not know; the tool's own schema is judged by
 * the gate in any case.
 */
export function responsesForm(chat: string): string {
  const parsed: unknown = JSON.parse(chat)
  if (typeof parsed !== 'object' || parsed === null || !('function' in parsed)) return chat
  const { type, function: inner } = parsed as { type?: unknown; function: unknown }
  if (typeof inner !== 'object' || inner === null) return chat
  return JSON.stringify({ type, ...inner, strict: false }, null, 2)
}
