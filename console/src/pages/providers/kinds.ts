// The manners of speaking to models, in words, and where their vendors are.
import type { JsonSchema } from '../../form/json'
import type { Provider } from './queries'

type Kind = Provider['kind']

interface Manner {
  label: string
  /** Without one, `base_url` is a must. */
  address?: string
  secret?: string
}

export const KINDS: Readonly<Record<Kind, Manner>> = {
  openai_chat: {
    label: 'OpenAI chat completions, and servers that speak them',
    address: 'https://api.openai.com/v1',
    secret: 'OPENAI_API_KEY',
  },
  openai_responses: { label: 'OpenAI responses', address: 'https://api.openai.com/v1', secret: 'OPENAI_API_KEY' },
  anthropic: { label: 'Anthropic messages', address: 'https://api.anthropic.com/v1', secret: 'ANTHROPIC_API_KEY' },
  gemini: {
    label: 'Gemini',
    address: 'https://generativelanguage.googleapis.com/v1beta',
    secret: 'GEMINI_API_KEY',
  },
  xml: { label: 'chat completions, tools described in the text' },
  scripted: { label: 'a script: no model is asked' },
}

/** Where questions go; nothing where nobody is asked. */
export function addressOf({ kind, base_url }: Pick<Provider, 'kind' | 'base_url'>): string | undefined {
  return base_url ?? KINDS[kind]?.address
}

/** The host to which the key may go. */
export function hostOf(provider: Pick<Provider, 'kind' | 'base_url'>): string | undefined {
  const address = addressOf(provider)
  if (address === undefined) return undefined
  return URL.canParse(address) ? new URL(address).hostname : undefined
}

const WORDS: Readonly<Record<string, readonly [title: string, description: string]>> = {
  name: ['Name', 'What agents write before the slash: the model openai/gpt-5 is asked of the provider openai.'],
  kind: ['Kind', 'In which manner its models are spoken to.'],
  base_url: ['Base URL', 'Where it is, up to the version. Without it, the vendor’s own address.'],
  secret: [
    'Secret',
    'The name of the secret that is its key, such as OPENAI_API_KEY. Its value is set on the next page.',
  ],
  script: ['Script', 'What it plays.'],
  prices: [
    'Prices',
    'For a million tokens, by the model’s name; * stands for all others. Without a price the cost is unknown.',
  ],
}

/** The API's description of a provider in the order and the words in which a person thinks of it. */
export function providerForm(schema: JsonSchema): JsonSchema {
  if (typeof schema !== 'object' || Array.isArray(schema)) return schema
  const properties = schema.properties as Record<string, JsonSchema> | undefined
  const worded = Object.entries(properties ?? {}).map(([name, part]): [string, JsonSchema] => {
    const [title, description] = WORDS[name] ?? []
    const played = name === 'script' ? ['scripted'] : Object.keys(KINDS).filter((kind) => kind !== 'scripted')
    return [
      name,
      {
        ...(typeof part === 'object' ? part : {}),
        ...(title === undefined ? {} : { title }),
        ...(description === undefined ? {} : { description }),
        ...(name === 'name' ? { 'x-pattern-hint': 'small letters, digits and dashes' } : {}),
        ...(['script', 'base_url', 'secret'].includes(name) ? { 'x-field': { visible_if: { kind: played } } } : {}),
        ...(name === 'prices' ? { 'x-advanced': true } : {}),
      },
    ]
  })
  return { ...schema, properties: Object.fromEntries(worded), 'x-order': Object.keys(WORDS) } as JsonSchema
}
