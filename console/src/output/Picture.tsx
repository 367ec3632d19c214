// Pictures out of a result: only kinds that hold no script, and only from the data itself.
import { useState } from 'react'
import { mediaOf } from '../form/FileField'
import css from './Output.module.css'

const DATA_URL = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/
const LETTERS_MAX = 8_000_000

export function pictureOf(text: string): string | undefined {
  if (text.length > LETTERS_MAX || text.length < 40) return undefined
  if (text.startsWith('data:image/')) return DATA_URL.test(text) ? text : undefined
  const media = mediaOf(text)
  return media !== '' && /^[A-Za-z0-9+/=]+$/.test(text) ? `data:${media};base64,${text}` : undefined
}

/** By how the bytes begin; what the tool says they are decides nothing. */
export function pictureFrom(base64: string): string | undefined {
  return pictureOf(base64.replaceAll(/\s/g, ''))
}

export function Picture({ source, label }: { source: string; label: string }) {
  const [isBroken, setBroken] = useState(false)
  if (isBroken) return <p className={css.quiet}>The picture cannot be shown.</p>
  return <img src={source} alt={label} className={css.picture} onError={() => setBroken(true)} />
}
