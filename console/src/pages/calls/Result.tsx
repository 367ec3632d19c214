// What came of a call, by the sections that its tool names, and what lies beside it.
import { useQuery } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { revealed } from '../../lib/hidden'
import { Output, type OutputSection } from '../../output/Output'
import { Section } from '../../ui/Section'
import css from './Call.module.css'
import { type Call, callQueries, isOpen } from './queries'

export function Result({ call }: { call: Call }) {
  const tool = useQuery({ ...callQueries.sections(call.name, call.version), enabled: call.output !== null }).data
  if (call.output === undefined || call.output === null) {
    if (call.error || isOpen(call.status)) return null
    return (
      <Section title="Output">
        <p className={css.quiet}>It gave none.</p>
      </Section>
    )
  }
  // Of another version the sections may mean other members.
  const sections = sectionsOf(tool, call.version)
  return (
    <Section
      title="Output"
      {...(call.truncated ? { note: 'Cut to what may be shown; the attachment holds all of it.' } : {})}
    >
      <Output result={call.output} {...(sections ? { sections } : {})} />
      {call.attachments?.map(({ url, kind, content_type, bytes }) => (
        <a key={url} href={url} download className={css.link}>
          <Download aria-hidden="true" /> {kind} {content_type && <code>{revealed(content_type)}</code>}
          {typeof bytes === 'number' && `${bytes.toLocaleString('en')} bytes`}
        </a>
      ))}
    </Section>
  )
}

function sectionsOf(tool: unknown, of: string): readonly OutputSection[] | undefined {
  const { output_sections: found, version } = (tool ?? {}) as { output_sections?: unknown; version?: string }
  if (version !== of) return undefined
  return Array.isArray(found) && found.length > 0 ? (found as OutputSection[]) : undefined
}
