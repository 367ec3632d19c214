// Words with `code` in them, as nodes: what others wrote never becomes markup.
import { Fragment } from 'react'

export function Prose({ text }: { text: string }) {
  // The parts never change places, so their index is who they are.
  const parts = text.split(/`([^`]+)`/).map((words, index) => ({ words, index }))
  return (
    <>
      {parts.map(({ words, index }) =>
        index % 2 === 1 ? <code key={index}>{words}</code> : <Fragment key={index}>{words}</Fragment>,
      )}
    </>
  )
}
