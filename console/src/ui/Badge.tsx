// A state in a word, a colour and a shape: never a colour alone.
import type { ReactNode } from 'react'
import css from './Badge.module.css'

export type Tone = 'ok' | 'warn' | 'bad' | 'info' | 'egress' | 'idle'
export type Shape = 'dot' | 'diamond' | 'arrow' | 'ring' | 'none'

export function Badge({
  tone,
  shape = 'dot',
  title,
  children,
}: {
  tone: Tone
  shape?: Shape
  title?: string
  children: ReactNode
}) {
  return (
    <span className={`${css.badge} ${css[tone]}`} title={title}>
      {shape !== 'none' && <i className={css[shape]} aria-hidden="true" />}
      {children}
    </span>
  )
}
