// Markdown of others as elements of ours: no markup of theirs, links only to pages, hidden characters shown.
import { createElement, Fragment, type ReactNode } from 'react'
import { revealed } from '../lib/hidden'
import { type Block, type Inline, parseMarkdown } from '../lib/markdown'
import css from './Markdown.module.css'

/** `under`: the level of the heading that it stands under. */
export function Markdown({ text, under = 2 }: { text: string; under?: number }) {
  return <div className={css.markdown}>{parseMarkdown(text).map((block, index) => node(block, index, under))}</div>
}

const LEVEL_MAX = 6

function node(block: Block, key: number, under: number): ReactNode {
  switch (block.kind) {
    case 'heading':
      return createElement(`h${Math.min(block.level + under, LEVEL_MAX)}`, { key }, inline(block.inside))
    case 'paragraph':
      return <p key={key}>{inline(block.inside)}</p>
    case 'quote':
      return <blockquote key={key}>{inline(block.inside)}</blockquote>
    case 'code':
      return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
        <pre key={key} tabIndex={0} role="group" aria-label="Code">
          {revealed(block.text)}
        </pre>
      )
    case 'list':
      return createElement(
        block.ordered ? 'ol' : 'ul',
        { key },
        keyed(block.items, (item) => <li>{inline(item)}</li>),
      )
    case 'table':
      return (
        <div key={key} className={css.scroll}>
          <table>
            <thead>
              <tr>
                {keyed(block.head, (cell) => (
                  <th>{inline(cell)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {keyed(block.rows, (row) => (
                <tr>
                  {keyed(row, (cell) => (
                    <td>{inline(cell)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )
    case 'rule':
      return <hr key={key} />
  }
}

function inline(inside: readonly Inline[]): ReactNode {
  return keyed(inside, (one) => {
    switch (one.kind) {
      case 'text':
        return revealed(one.text)
      case 'code':
        return <code>{revealed(one.text)}</code>
      case 'strong':
        return <strong>{inline(one.inside)}</strong>
      case 'em':
        return <em>{inline(one.inside)}</em>
      case 'link':
        return (
          <a href={one.href} target="_blank" rel="noopener noreferrer nofollow" title={one.href}>
            {inline(one.inside)}
          </a>
        )
    }
  })
}

// The parts of a text never change places.
function keyed<Item>(items: readonly Item[], shown: (item: Item) => ReactNode): ReactNode {
  return items
    .map((item, index) => ({ item, index }))
    .map(({ item, index }) => <Fragment key={index}>{shown(item)}</Fragment>)
}
