// What an agent was asked: the beginning, and all of it on request.
import { useState } from 'react'
import { revealed } from '../../lib/hidden'
import { Button } from '../../ui/Button'
import { CopyButton } from '../../ui/CopyLine'
import css from './Answer.module.css'

const SHOWN_CHARS = 800
const SHOWN_LINES = 8

export function Prompt({ text }: { text: string }) {
  const [isOpen, setOpen] = useState(false)
  const isLong = text.length > SHOWN_CHARS || text.split('\n').length > SHOWN_LINES
  return (
    <section className={css.answer} aria-label="Prompt">
      <header className={css.head}>
        <h2>Prompt</h2>
        <span className={css.copy}>
          <CopyButton text={text} what="prompt" />
        </span>
      </header>
      <p className={css.asked} data-folded={(isLong && !isOpen) || undefined}>
        {revealed(text)}
      </p>
      {isLong && (
        <p>
          <Button onPress={() => setOpen(!isOpen)}>{isOpen ? 'Show less' : 'Show all of it'}</Button>
        </p>
      )}
    </section>
  )
}
