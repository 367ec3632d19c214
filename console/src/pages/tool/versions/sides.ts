// One version as text that can be laid beside another: words first, then the schemas.
import type { Tool } from '../definition'

export function sideText(tool: Tool): string {
  const facts = [
    ['title', tool.title],
    ['class', tool.egressClass],
    ['risk', tool.risk],
    ['asks a person', tool.asks ? 'yes' : 'no'],
    ['timeout', `${tool.timeoutMs} ms`],
    ['output', `${tool.maxOutputBytes} bytes`],
    ['hosts', tool.hosts.join(', ') || 'none'],
    ['secrets', tool.secrets.map(({ name }) => name).join(', ') || 'none'],
  ].map(([name, value]) => `${name}: ${value}`)
  return [
    facts.join('\n'),
    `description:\n${wrapped(tool.description)}`,
    `input_schema:\n${JSON.stringify(tool.inputSchema, null, 2)}`,
    `output_schema:\n${JSON.stringify(tool.outputSchema ?? null, null, 2)}`,
    `docs:\n${tool.docs}`,
  ].join('\n\n')
}

const WIDTH = 72

/** In lines of a length, so that a changed word marks a line and not the whole. */
export function wrapped(text: string): string {
  const lines: string[] = []
  for (const paragraph of text.split('\n')) {
    let line = ''
    for (const word of paragraph.split(' ')) {
      if (line !== '' && line.length + word.length >= WIDTH) {
        lines.push(line)
        line = word
      } else line = line === '' ? word : `${line} ${word}`
    }
    lines.push(line)
  }
  return lines.join('\n')
}
