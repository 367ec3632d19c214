// The definition as each reader is told it, and what a reader is not told.
import { useQuery } from '@tanstack/react-query'
import { Info, TriangleAlert } from 'lucide-react'
import { sentence } from '../../api/errors'
import { revealed } from '../../lib/hidden'
import { CopyButton } from '../../ui/CopyLine'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { SkeletonRows } from '../../ui/Skeleton'
import type { Tool } from './definition'
import { reference, toolQueries } from './queries'
import { responsesForm } from './responses'
import css from './ToolPage.module.css'

interface Form {
  id: string
  label: string
  note: string
  /** The rendering of the server that it is made of, where that is another. */
  of?: string
  made?: (text: string) => string
}

const FORMS: readonly Form[] = [
  {
    id: 'openai',
    label: 'OpenAI Chat Completions',
    note: 'An entry of `tools` for `/v1/chat/completions`: the function stands inside of it.',
  },
  {
    id: 'openai-responses',
    of: 'openai',
    label: 'OpenAI Responses',
    note: 'An entry of `tools` for `/v1/responses`: flat, and with `strict` off, since that is on where nothing is said.',
    made: responsesForm,
  },
  { id: 'anthropic', label: 'Anthropic', note: 'An entry of `tools` for messages.' },
  { id: 'gemini', label: 'Gemini', note: 'An entry of `functionDeclarations`.' },
  { id: 'mcp', label: 'MCP', note: 'An entry of `tools/list`.' },
  { id: 'xml', label: 'Prompt (XML)', note: 'A text for models without tool calling.' },
  { id: 'framework', label: 'Framework', note: 'The whole definition, with every default spelled out.' },
  { id: 'base-tool', label: 'BaseTool', note: 'With schemas in draft-07.' },
  { id: 'meta', label: 'ToolMeta', note: 'What a list of tools needs.' },
  { id: 'tool-definition', label: 'ToolDefinition', note: 'What a page of a tool needs.' },
]

export function RenderingsTab({
  tool,
  version,
  form,
  all,
  choose,
}: {
  tool: Tool
  version: string | undefined
  form: string | undefined
  all: boolean
  choose: (form: string) => void
}) {
  const chosen = FORMS.find(({ id }) => id === form) ?? FORMS[0]
  if (!chosen) return null
  return (
    <div className={css.split}>
      <nav className={css.picks} aria-label="Readers">
        {FORMS.map(({ id, label }) => (
          <button
            key={id}
            type="button"
            className={css.pick}
            aria-current={id === chosen.id ? 'true' : undefined}
            onClick={() => choose(id)}
          >
            {label}
          </button>
        ))}
      </nav>
      <Rendering tool={tool} version={version} form={chosen} all={all} />
    </div>
  )
}

function Rendering({
  tool,
  version,
  form,
  all,
}: {
  tool: Tool
  version: string | undefined
  form: Form
  all: boolean
}) {
  const source = form.of ?? form.id
  const rendering = useQuery(toolQueries.rendering(reference(tool.name, version), source, all))
  const losses = useQuery(toolQueries.losses(tool)).data?.filter(({ code }) => code === `provider.${source}`) ?? []
  if (rendering.isError) return <Problem error={rendering.error} retry={() => void rendering.refetch()} />
  if (rendering.data === undefined) return <SkeletonRows rows={6} />
  const text = form.made ? form.made(rendering.data) : rendering.data
  return (
    <section className={css.rendering} aria-label={form.label}>
      <header className={css.renderingHead}>
        <p>
          <Prose text={form.note} />
        </p>
        <CopyButton text={text} what={`the ${form.label} form`} />
      </header>
      {losses.map(({ pointer, message, fix, severity }) => (
        <div key={pointer + message} className={css.loss} data-severity={severity}>
          {severity === 'note' ? <Info aria-hidden="true" /> : <TriangleAlert aria-hidden="true" />}
          <p>
            <Prose text={sentence(message)} />{' '}
            <span className={css.quiet}>
              <Prose text={sentence(fix)} />
            </span>
          </p>
        </div>
      ))}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <pre className={css.code} tabIndex={0} role="group" aria-label={`${form.label} form`}>
        {revealed(text)}
      </pre>
    </section>
  )
}
