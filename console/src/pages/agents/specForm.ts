// The API's description of an agent and of a profile, put in the order and the words in which a person thinks of them.
// What the description gains later stays in the form: behind the rest.
import type { JsonSchema } from '../../form/json'

type Words = readonly [title: string, description?: string]

const AGENT: Readonly<Record<string, Words>> = {
  name: ['Name', 'How calls, keys and rules name it; it cannot be changed later.'],
  title: ['Title', 'What people read in lists.'],
  description: ['Description', 'What it is for, in a sentence or two.'],
  toolset: ['Tools', 'Only those that are assigned to it, or every one that is open to all.'],
  profile: ['Profile', 'What binds all of its calls: approval, cost, rate, hosts.'],
  model: ['Model', 'PROVIDER/MODEL, such as openai/gpt-5. Without one it has a key of its own, and is not run here.'],
  instructions: ['Instructions'],
  workspace: ['Workspace'],
  limits: ['Limits'],
  tool_groups: ['Tool groups'],
  custom_tools: ['Custom tools'],
  skills: ['Skills'],
  model_params: ['Parameters of the model'],
  version: ['Version of the format'],
}

/** Few need these: they are folded away. */
const RARE: ReadonlySet<string> = new Set([
  'instructions',
  'workspace',
  'limits',
  'tool_groups',
  'custom_tools',
  'skills',
  'model_params',
  'version',
])

/** `profiles`: the names that can be chosen, since a profile that is not there would be refused. */
export function agentForm(schema: JsonSchema, profiles: readonly string[]): JsonSchema {
  if (typeof schema !== 'object' || Array.isArray(schema)) return schema
  const properties = schema.properties as Record<string, JsonSchema> | undefined
  const worded = Object.entries(properties ?? {}).map(([name, part]): [string, JsonSchema] => {
    const [title, description] = AGENT[name] ?? []
    const base = name === 'profile' && profiles.length > 0 ? { type: 'string', enum: [...profiles] } : part
    return [
      name,
      {
        ...(typeof base === 'object' ? base : {}),
        ...(title === undefined ? {} : { title }),
        ...(description === undefined ? {} : { description }),
        ...(name === 'name' ? { 'x-pattern-hint': 'small letters, digits and dashes' } : {}),
        ...(RARE.has(name) ? { 'x-advanced': true } : {}),
      },
    ]
  })
  return { ...schema, properties: Object.fromEntries(worded), 'x-order': Object.keys(AGENT) }
}
