// The whole value as text. In a shadow root, because the content security policy allows CodeMirror no style element in
// the page itself; there it uses a constructed sheet.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { json } from '@codemirror/lang-json'
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { Compartment, EditorState } from '@codemirror/state'
import { EditorView, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useRef, useState } from 'react'
import { useForm } from './context'
import css from './Form.module.css'
import { type Json, same } from './json'
import { parseJson, type Unreadable } from './parse'

const COLOURS = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--ink)' },
  { tag: tags.string, color: 'light-dark(#1d5c52, #86d2c4)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'light-dark(#22579e, #8db9ff)' },
  { tag: [tags.separator, tags.squareBracket, tags.brace], color: 'var(--ink-2)' },
])

const LOOK = EditorView.theme({
  '&': {
    color: 'var(--ink)',
    backgroundColor: 'var(--surface)',
    fontSize: '13px',
    minHeight: '200px',
  },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', overflow: 'visible' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': {
    backgroundColor: 'var(--sunken)',
    color: 'var(--ink-2)',
    border: 'none',
    borderRight: '1px solid var(--line)',
  },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--hover)', outline: '1px solid var(--line)' },
})

export function JsonEditor({
  value,
  onChange,
  disabled,
}: {
  value: Json
  onChange: (value: Json) => void
  disabled: boolean
}) {
  const { block } = useForm()
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const changed = useRef(onChange)
  changed.current = onChange
  const written = useRef(value)
  const first = useRef(value)
  const [wrong, setWrong] = useState<Unreadable>()
  const [editable] = useState(() => new Compartment())

  useEffect(() => {
    if (!host.current) return
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: 'open' })
    const editor = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: JSON.stringify(first.current, null, 2),
        extensions: [
          lineNumbers(),
          history(),
          indentOnInput(),
          bracketMatching(),
          json(),
          syntaxHighlighting(COLOURS),
          LOOK,
          EditorView.lineWrapping,
          EditorState.tabSize.of(2),
          // Escape gives Tab back to the page.
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorView.contentAttributes.of({ 'aria-label': 'Input as JSON', spellcheck: 'false' }),
          editable.of(EditorState.readOnly.of(false)),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return
            const parsed = parseJson(update.state.doc.toString())
            setWrong('wrong' in parsed ? parsed.wrong : undefined)
            block('#json', 'wrong' in parsed ? 'The text is not JSON.' : undefined)
            if ('wrong' in parsed) return
            written.current = parsed.value
            changed.current(parsed.value)
          }),
        ],
      }),
    })
    view.current = editor
    return () => {
      block('#json', undefined)
      editor.destroy()
    }
  }, [block, editable])

  useEffect(() => {
    view.current?.dispatch({ effects: editable.reconfigure(EditorState.readOnly.of(disabled)) })
  }, [disabled, editable])

  // A value from elsewhere replaces the text; the text's own value never does.
  useEffect(() => {
    const editor = view.current
    if (!editor || same(written.current, value)) return
    written.current = value
    editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: JSON.stringify(value, null, 2) } })
  }, [value])

  return (
    <div>
      <div ref={host} className={css.editor} data-invalid={wrong !== undefined || undefined} />
      <p role="status" className={wrong ? css.wrong : css.hint}>
        {wrong
          ? `Line ${wrong.line}, column ${wrong.column}: ${wrong.message}. The text is not used until it can be read.`
          : 'Escape, then Tab, leaves the editor.'}
      </p>
    </div>
  )
}
