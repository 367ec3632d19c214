// A tool as the API shows it. The document calls it an object and no more, so nothing in it is taken for granted.
import { isObject, type Json, type JsonObject, type JsonSchema } from '../../form/json'
import type { OutputSection } from '../../output/Output'

export interface Example {
  title: string
  input: Json
  output: Json | undefined
}

export interface DeclaredSecret {
  name: string
  required: boolean
  purpose: string
}

export interface Tool {
  id: string
  name: string
  version: string
  title: string
  description: string
  icon: string
  docs: string
  category: string
  type: string
  tags: readonly string[]
  egressClass: string
  risk: string
  asks: boolean
  alwaysAsks: boolean
  state: 'active' | 'deprecated' | 'blocked'
  enabled: boolean
  /** Why it does not run for now. */
  stopped: string
  /** Why no call of it runs on this server. */
  whyNot: string
  /** What was said when its state was set. */
  message: string
  removeBy: string
  replacedBy: string
  origin: string
  shared: boolean
  overridden: boolean
  visibility: string
  sink: string
  runner: string
  inputSchema: JsonSchema
  outputSchema: JsonSchema | undefined
  sections: readonly OutputSection[]
  examples: readonly Example[]
  secrets: readonly DeclaredSecret[]
  hosts: readonly string[]
  timeoutMs: number
  maxOutputBytes: number
  cache: string
  cacheTtlS: number
  idempotent: boolean
  requiredPermission: string
  wireName: string
  publishedBy: string
  createdAt: string
  definitionDigest: string
  behaviourDigest: string
  /** Everything, as it came. */
  raw: JsonObject
}

/** What was answered, read member by member; `undefined` if it is no tool at all. */
export function readTool(answer: unknown): Tool | undefined {
  if (!isObject(answer)) return undefined
  const raw = answer as JsonObject
  const text = (name: string) => asText(raw[name])
  const flag = (name: string) => raw[name] === true
  const state = text('state')
  return {
    id: text('id'),
    name: text('key') || text('name'),
    version: text('version'),
    title: text('title') || text('name'),
    description: text('description'),
    icon: text('icon'),
    docs: text('docs'),
    category: text('category'),
    type: text('type'),
    tags: texts(raw.tags),
    egressClass: text('egress_class'),
    risk: text('risk'),
    asks: flag('requires_approval'),
    alwaysAsks: text('permission_policy') === 'always_ask',
    state: state === 'deprecated' || state === 'blocked' ? state : 'active',
    enabled: raw.enabled !== false,
    stopped: text('stopped'),
    whyNot: text('why_not'),
    message: text('message'),
    removeBy: text('remove_by'),
    replacedBy: text('replaced_by'),
    origin: text('origin'),
    shared: flag('shared'),
    overridden: flag('overridden'),
    visibility: text('visibility'),
    sink: text('sink'),
    runner: isObject(raw.runner) ? asText((raw.runner as JsonObject).kind) : '',
    inputSchema: asSchema(raw.input_schema) ?? true,
    outputSchema: asSchema(raw.output_schema),
    sections: objects(raw.output_sections).map(
      ({ key, label, type, config }) =>
        ({ key: asText(key), label: asText(label), type: asText(type), config }) as OutputSection,
    ),
    examples: objects(raw.examples).map(({ title, input, output }) => ({
      title: asText(title) || 'Example',
      input: input ?? {},
      output,
    })),
    secrets: objects(raw.secrets).map(({ name, required, purpose }) => ({
      name: asText(name),
      required: required !== false,
      purpose: asText(purpose),
    })),
    hosts: texts(raw.hosts),
    timeoutMs: asNumber(raw.timeout_ms),
    maxOutputBytes: asNumber(raw.max_output_bytes),
    cache: text('cache') || 'none',
    cacheTtlS: asNumber(raw.cache_ttl_s),
    idempotent: flag('idempotent'),
    requiredPermission: text('required_permission'),
    wireName: text('wire_name'),
    publishedBy: text('published_by'),
    createdAt: text('created_at'),
    definitionDigest: text('definition_digest'),
    behaviourDigest: text('behaviour_digest'),
    raw,
  }
}

const asText = (value: Json | undefined): string => (typeof value === 'string' ? value : '')
const asNumber = (value: Json | undefined): number => (typeof value === 'number' ? value : 0)
const texts = (value: Json | undefined): string[] =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === 'string') : []
const objects = (value: Json | undefined): JsonObject[] =>
  Array.isArray(value) ? value.filter((item): item is JsonObject => isObject(item)) : []
const asSchema = (value: Json | undefined): JsonSchema | undefined =>
  typeof value === 'boolean' || isObject(value) ? (value as JsonSchema) : undefined
