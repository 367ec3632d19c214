// What a model said in a turn. Long texts show their beginning; what is still being said shows its end.
import { useState } from 'react'
import { Button } from 'react-aria-components'
import { revealed } from '../../lib/hidden'
import css from './Said.module.css'
import type { Spoken } from './turns'

const SHOWN_CHARS = 400
const SHOWN_LINES = 5

export const hasWords = ({ text, took, isLive }: Spoken) => text !== '' || took !== '' || isLive

export function Said({ spoken, hasFailed }: { spoken: Spoken; hasFailed: boolean }) {
  const [isOpen, setOpen] = useState(false)
  const { text, isCut, isLive, took } = spoken
  const isLong = text.length > SHOWN_CHARS || text.split('\n').length > SHOWN_LINES
  return (
    <div className={css.turn}>
      {(text !== '' || isLive) && (
        <p className={css.text} data-failed={hasFailed || undefined} data-folded={(isLong && !isOpen) || undefined}>
          {revealed(isLive ? text.slice(-SHOWN_CHARS) : text)}
          {isLive && <span className={css.cursor} aria-hidden="true" />}
          {isLive && text === '' && <span className="visually-hidden">The model is at it.</span>}
        </p>
      )}
      <p className={css.took}>
        {took}
        {isLong && !isLive && (
          <Button className={css.more ?? ''} onPress={() => setOpen(!isOpen)} aria-expanded={isOpen}>
            {isOpen ? 'Show less' : 'Show all'}
          </Button>
        )}
        {isCut && isOpen && <span> The rest is in the replay bundle.</span>}
      </p>
    </div>
  )
}
