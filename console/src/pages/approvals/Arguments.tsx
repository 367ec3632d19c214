// The exact arguments: the stored text, laid out; what eyes do not see is marked.
import { type ReactNode, type Ref, useMemo } from 'react'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import css from './Arguments.module.css'
import { cut, type Line, layout, type Part } from './layout'

/** How much is shown before the first fold, and with each unfolding. */
export const FOLD_FIRST = 6_000
export const FOLD_STEP = 60_000

export function Arguments({
  text,
  limit,
  onUnfold,
  box,
}: {
  text: string
  limit: number
  /** Where the fold was, in pixels from the top of the box. */
  onUnfold: (top: number) => void
  box: Ref<HTMLDivElement>
}) {
  const lines = useMemo(() => layout(text), [text])
  const { lines: kept, folded } = useMemo(() => cut(lines, limit), [lines, limit])
  return (
    // A text in a language of its own: no translation, no spell check.
    <div ref={box} className={css.box} translate="no" data-testid="arguments">
      <Lines lines={kept} />
      {folded > 0 && (
        <div className={css.fold}>
          <Button
            size="small"
            onPress={({ target }) => {
              const element = target.closest(`.${css.fold}`)
              const top = element instanceof HTMLElement ? element.offsetTop : 0
              onUnfold(top)
            }}
          >
            Unfold {folded.toLocaleString('en')} more characters
          </Button>
        </div>
      )}
    </div>
  )
}

export function Lines({ lines }: { lines: readonly Line[] }) {
  // Lines never change places, so their index is who they are.
  const numbered = lines.map((line, index) => ({ line, index }))
  return (
    <div className={css.lines}>
      {numbered.map(({ line: { indent, parts }, index }) => (
        <div key={index} className={css.line} style={{ paddingLeft: `calc(${indent * 2 + 2}ch)`, textIndent: '-2ch' }}>
          {parts.map((part, at) => (
            <Shown key={`${index}.${String(at)}`} part={part} />
          ))}
        </div>
      ))}
    </div>
  )
}

function Shown({ part: { kind, text } }: { part: Part }): ReactNode {
  if (kind === 'hidden') {
    return (
      <mark className={css.hidden} title="A character that cannot be seen">
        {text}
      </mark>
    )
  }
  return <span className={css[kind]}>{kind === 'text' || kind === 'name' ? revealed(text) : text}</span>
}
