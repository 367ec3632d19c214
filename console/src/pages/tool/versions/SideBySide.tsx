// Two texts side by side, what is the same folded. In a shadow root: the editor's style sheets are then adopted and need
// no inline style, which the content security policy forbids.
import { MergeView } from '@codemirror/merge'
import { EditorState } from '@codemirror/state'
import { EditorView, lineNumbers } from '@codemirror/view'
import { useEffect, useRef } from 'react'
import css from './Versions.module.css'

const MARGIN_LINES = 3
const FOLDED_MIN = 6

const LOOK = EditorView.theme({
  '&': { backgroundColor: 'transparent', color: 'var(--ink)', fontSize: '13px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--ink-2)', border: '0' },
  '.cm-content': { caretColor: 'transparent' },
  '&.cm-merge-a .cm-changedLine': { backgroundColor: 'var(--bad-tint)' },
  '&.cm-merge-b .cm-changedLine': { backgroundColor: 'var(--ok-tint)' },
  '&.cm-merge-a .cm-changedText, &.cm-merge-a .cm-deletedText': {
    background: 'color-mix(in srgb, var(--bad) 22%, transparent)',
  },
  '&.cm-merge-b .cm-changedText': { background: 'color-mix(in srgb, var(--ok) 22%, transparent)' },
  '.cm-collapsedLines': {
    padding: '2px 8px',
    background: 'var(--sunken)',
    color: 'var(--ink-2)',
    borderBlock: '1px solid var(--line)',
  },
  // The editor's own marks are not in the font.
  '.cm-collapsedLines:before, .cm-collapsedLines:after': { content: 'none' },
})

export function SideBySide({
  before,
  after,
  labels,
}: {
  before: string
  after: string
  labels: readonly [string, string]
}) {
  const host = useRef<HTMLDivElement>(null)
  const [older, newer] = labels
  useEffect(() => {
    const element = host.current
    if (!element) return
    // A shadow root stays as long as its element.
    const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
    const parent = document.createElement('div')
    root.append(parent)
    const side = (doc: string, label: string) => ({
      doc,
      extensions: [
        LOOK,
        lineNumbers(),
        EditorView.lineWrapping,
        EditorState.readOnly.of(true),
        EditorView.contentAttributes.of({ 'aria-label': `Version ${label}`, 'aria-readonly': 'true' }),
      ],
    })
    const view = new MergeView({
      a: side(before, older),
      b: side(after, newer),
      parent,
      root,
      collapseUnchanged: { margin: MARGIN_LINES, minSize: FOLDED_MIN },
      gutter: true,
    })
    return () => {
      view.destroy()
      parent.remove()
    }
  }, [before, after, older, newer])
  return (
    <figure className={css.sides}>
      <figcaption>
        <span>
          Before: <code>{older}</code>
        </span>
        <span>
          After: <code>{newer}</code>
        </span>
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard */}
      <div ref={host} tabIndex={0} role="group" aria-label={`${older} beside ${newer}`} />
    </figure>
  )
}
