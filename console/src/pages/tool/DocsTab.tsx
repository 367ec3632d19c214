// What a tool is for and how it is called: words, fields, examples, lines to copy.
import { Link } from '@tanstack/react-router'
import { initialValue } from '../../form/schema'
import { to } from '../../paths'
import { CopyLine } from '../../ui/CopyLine'
import { Json } from '../../ui/Json'
import { Markdown } from '../../ui/Markdown'
import type { Tool } from './definition'
import { commandLine, curlLine } from './lines'
import { SchemaTable } from './SchemaTable'
import css from './ToolPage.module.css'

export function DocsTab({ tool, version }: { tool: Tool; version: string | undefined }) {
  const name = version ? `${tool.name}@${version}` : tool.name
  const input = tool.examples[0]?.input ?? initialValue(tool.inputSchema)
  return (
    <div className={css.docs}>
      <section>
        <h2>When to use it</h2>
        <Markdown text={tool.description} />
      </section>
      {tool.docs && (
        <section>
          <h2>Documentation</h2>
          <Markdown text={tool.docs} />
        </section>
      )}
      <section>
        <h2>Input</h2>
        <SchemaTable schema={tool.inputSchema} label="Input" />
      </section>
      <section>
        <h2>Output</h2>
        <SchemaTable schema={tool.outputSchema} label="Output" />
      </section>
      {tool.examples.length > 0 && (
        <section>
          <h2>Examples</h2>
          {numbered(tool.examples).map(({ example, number }) => (
            <div key={number} className={css.example}>
              <div className={css.exampleHead}>
                <h3>{example.title}</h3>
                <Link
                  {...to.tool(tool.name)}
                  search={{ example: String(number), ...(version ? { version } : {}) }}
                  aria-label={`Use in the form: ${example.title}`}
                >
                  Use in the form
                </Link>
              </div>
              <div className={css.pair}>
                <Json value={example.input} />
                {example.output !== undefined && <Json value={example.output} />}
              </div>
            </div>
          ))}
        </section>
      )}
      <section>
        <h2>From a terminal</h2>
        <CopyLine text={commandLine(name, input)} what="command line" />
        <CopyLine text={curlLine(window.location.origin, name, input)} what="curl line" />
      </section>
    </div>
  )
}

// Examples never change places: their number is who they are, also in the address.
function numbered(examples: Tool['examples']) {
  return examples.map((example, index) => ({ example, number: index + 1 }))
}
