// Markdown of others, as nodes: no HTML, and links only to the web, with their host in sight.
import type { ReactNode } from 'react'
import { revealed } from '../lib/hidden'
import { type Block, type Inline, markdown } from '../lib/markdown'
import { numbered } from '../lib/numbered'
import css from './Markdown.module.css'

export function Markdown({ text }: { text: string }) {
  return <div className={css.markdown}>{shownBlocks(markdown(text))}</div>
}

function shownBlocks(blocks: readonly Block[]): ReactNode {
  return numbered(blocks).map(({ item, at }) => <Shown key={at} block={item} />)
}

function Shown({ block }: { block: Block }) {
  switch (block.type) {
    case 'heading':
      // The page has headings of its own; those of a text come below them.
      return block.level <= 2 ? <h3>{shownInlines(block.inner)}</h3> : <h4>{shownInlines(block.inner)}</h4>
    case 'paragraph':
      return <p>{shownInlines(block.inner)}</p>
    case 'code':
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
        <pre tabIndex={0}>
          <code>{revealed(block.text)}</code>
        </pre>
      )
    case 'quote':
      return <blockquote>{shownBlocks(block.blocks)}</blockquote>
    case 'rule':
      return <hr />
    case 'list': {
      const items = numbered(block.items).map(({ item, at }) => <li key={at}>{shownBlocks(item)}</li>)
      return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>
    }
    case 'table':
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it
        <div className={css.scroll} tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>
                {numbered(block.head).map(({ item, at }) => (
                  <th key={at}>{shownInlines(item)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {numbered(block.rows).map(({ item: row, at: line }) => (
                <tr key={line}>
                  {numbered(row).map(({ item, at }) => (
                    <td key={at}>{shownInlines(item)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )
  }
}

function shownInlines(inlines: readonly Inline[]): ReactNode {
  return numbered(inlines).map(({ item, at }) => <ShownInline key={at} inline={item} />)
}

function ShownInline({ inline }: { inline: Inline }) {
  switch (inline.type) {
    case 'text':
      return revealed(inline.text)
    case 'code':
      return <code>{revealed(inline.text)}</code>
    case 'break':
      return <br />
    case 'strong':
      return <strong>{shownInlines(inline.inner)}</strong>
    case 'emphasis':
      return <em>{shownInlines(inline.inner)}</em>
    case 'link':
      return (
        <WebLink href={inline.href} words={inline.inner.map((inner) => ('text' in inner ? inner.text : '')).join('')}>
          {shownInlines(inline.inner)}
        </WebLink>
      )
  }
}

/** A link out of the console. Its words may say anything, so the host stands beside them, unless they are the address. */
export function WebLink({ href, words, children }: { href: string; words: string; children: ReactNode }) {
  const { host } = new URL(href)
  const isAddress = words === href || `${words}/` === href
  return (
    <>
      <a href={href} target="_blank" rel="noopener noreferrer nofollow external">
        {children}
      </a>
      {!isAddress && <span className={css.host}> ({host})</span>}
    </>
  )
}
