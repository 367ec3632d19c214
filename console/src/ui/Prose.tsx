// Words with `code` in them, as nodes: what others wrote never becomes markup, and shows what it hides.
import { Fragment } from 'react'
import { revealed } from '../lib/hidden'

export function Prose({ text }: { text: string }) {
  // The parts never change places, so their index is who they are.
  const parts = text.split(/`([^`]+)`/).map((words, index) => ({ words, index }))
  return (
    <>
      {parts.map(({ words, index }) =>
        index % 2 === 1 ? (
          <code key={index}>{revealed(words)}</code>
        ) : (
          <Fragment key={index}>{revealed(words)}</Fragment>
        ),
      )}
    </>
  )
}
