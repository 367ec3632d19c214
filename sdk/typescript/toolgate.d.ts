/** Tools of one's own for Toolgate. See `toolgate.js`. */

/** How much harm a call can do. Undeclared it follows the class, and with it what an operator says of the code. */
export type Risk = 'safe' | 'sensitive' | 'critical'

/** How a call waits for a person. For a `write` no mode lets the effect happen without one. */
export type Mode = 'blocking' | 'continue_on_timeout' | 'fire_and_continue'

export type ErrorCode =
  | 'VALIDATION_ERROR'
  | 'TIMEOUT'
  | 'RATE_LIMIT'
  | 'POLICY_DENIED'
  | 'AUTH_REQUIRED'
  | 'PROVIDER_ERROR'
  | 'NETWORK_ERROR'
  | 'SANDBOX_ERROR'

/** JSON Schema, 2020-12; the top level is an object. */
export type Schema = { type: 'object'; properties?: Record<string, unknown>; [keyword: string]: unknown }

export interface ToolContext {
  /** The values of the secrets that the tool declares, by name. Printed, it shows the names alone. */
  readonly auth: Readonly<Record<string, string>>
  readonly tenant_id: string
  /** The call's id within its run, the same for each attempt. */
  readonly call_id: string
  /** Who is answerable, such as `user:ID`. */
  readonly principal: string
  /** The agent that acts for them, if one does. */
  readonly agent_id: string | null
  /** Aborted when somebody wants the call stopped; pass it on to `fetch` and the like. */
  readonly signal: AbortSignal
  /** Tells whoever follows the call how it goes on: whole lines, at once. */
  say(text: string): void
  /** Ends the call if somebody wants it stopped. Only before it has changed something. */
  throwIfCancelled(): void
}

export type Content =
  | { type: 'text'; text: string }
  | { type: 'image' | 'audio'; data: string; mime_type: string }
  | { type: 'json'; json: unknown }

/** For a result that is more than its output: `content` for a model, `app_data` for the application alone. */
export class ToolResult<Output = unknown> {
  constructor(result: { structured?: Output; content?: Content[]; is_error?: boolean; app_data?: unknown })
}

/** How a call failed, in the gate's words: it reaches the model, which may correct itself. */
export class ToolError extends Error {
  constructor(
    code: ErrorCode,
    message: string,
    more?: { reason?: string; details?: Record<string, unknown>; retry_after_s?: number },
  )
  readonly code: ErrorCode
}

/** The server said no, and will again: a wrong key, a definition that it does not take. */
export class Refused extends Error {
  readonly status: number
  readonly remedy: string
}

export interface ToolSpec<Input, Output> {
  /** In camelCase, a verb and a noun, such as `sendLetter`. */
  name: string
  /** What it does, when to use it, when not, and what to try first. */
  description: string
  input: Schema
  output: Schema
  risk?: Risk
  mode?: Mode
  /** Names of the secrets that it is given in `ctx.auth`. */
  secrets?: string[]
  /** Added to the definition as it is: `title`, `tags`, `examples`, `timeout_ms` and so on. */
  more?: Record<string, unknown>
  execute(input: Input, ctx: ToolContext): Output | ToolResult<Output> | Promise<Output | ToolResult<Output>>
}

export interface Tool<Input = any, Output = any> {
  readonly name: string
  readonly definition: Readonly<Record<string, unknown>>
  readonly execute: ToolSpec<Input, Output>['execute']
}

/** Makes a tool of a function. */
export function tool<Input = any, Output = any>(spec: ToolSpec<Input, Output>): Tool<Input, Output>

/**
 * Carries out calls until the process is told to end (SIGINT, SIGTERM) or `signal` aborts, then finishes what it took.
 * Without `url` and `key` they come from TOOLGATE_SERVER and TOOLGATE_KEY.
 */
export function serve(options: {
  tools: Tool[]
  url?: string
  key?: string
  /** How many calls run at the same time; 4 without it. */
  parallel?: number
  signal?: AbortSignal
  /** Where the worker tells what it does; standard error without it. */
  log?: (line: string) => void
}): Promise<void>

/** How one call in a test went. */
export interface Captured<Output> {
  output?: Output
  error?: { code: ErrorCode; message: string; details?: Record<string, unknown> }
  said: string
}

/** Calls a tool without a server: what it gives, how it fails, what it says. */
export function captureTool<Input, Output>(
  tool: Tool<Input, Output>,
  input: Input,
  context?: { auth?: Record<string, string>; signal?: AbortSignal },
): Promise<Captured<Output>>
