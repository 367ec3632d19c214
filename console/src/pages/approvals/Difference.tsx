// Two inputs compared: which members changed, and the lines.
import { useMemo, useState } from 'react'
import { Button } from 'react-aria-components'
import { canonical } from '../../lib/canonical'
import { revealed } from '../../lib/hidden'
import css from './Difference.module.css'
import { type DiffLine, diffLines, folded, memberChanges } from './diff'
import { layout, lineText, shown } from './layout'

const SIGN = { same: ' ', removed: '−', added: '+' } as const
const SAID = { same: '', removed: 'removed: ', added: 'added: ' } as const

/** `afterText` where the stored text is at hand; else the text is made from the value. */
export function Difference({ before, after, afterText }: { before: unknown; after: unknown; afterText?: string }) {
  const text = afterText ?? shown(canonical(after))
  const lines = useMemo(() => diffLines(linesOf(shown(canonical(before))), linesOf(text)), [before, text])
  const changes = useMemo(() => memberChanges(before, after), [before, after])
  const [whole, setWhole] = useState(false)
  if (lines.every(({ kind }) => kind === 'same')) {
    return <p className={css.none}>Nothing differs: the arguments are the same.</p>
  }
  const rows = (whole ? lines : folded(lines)).map((row, index) => ({ row, index }))
  return (
    <div className={css.difference}>
      <ul className={css.changes}>
        {changes.map(({ kind, pointer }) => (
          <li key={pointer} className={css[kind]}>
            {kind} <code>{revealed(pointer.slice(1) || 'the whole')}</code>
          </li>
        ))}
      </ul>
      <div className={css.lines} translate="no">
        {rows.map(({ row, index }) =>
          typeof row === 'number' ? (
            <Button key={index} className={css.skipped ?? ''} onPress={() => setWhole(true)}>
              {row} equal {row === 1 ? 'line' : 'lines'}
            </Button>
          ) : (
            <Row key={index} line={row} />
          ),
        )}
      </div>
    </div>
  )
}

function linesOf(text: string): string[] {
  return layout(text).map(lineText)
}

export function Row({ line: { kind, text, mark } }: { line: DiffLine }) {
  const [from, until] = mark ?? [0, 0]
  return (
    <div className={`${css.line} ${css[kind]}`}>
      <span className={css.sign} aria-hidden="true">
        {SIGN[kind]}
      </span>
      <span className="visually-hidden">{SAID[kind]}</span>
      <span>
        {revealed(text.slice(0, from))}
        {until > from && <b className={css.inner}>{revealed(text.slice(from, until))}</b>}
        {revealed(text.slice(until > from ? until : from))}
      </span>
    </div>
  )
}
