// Any JSON as text that can be read: coloured by kind, folded by hand, with hidden characters made visible.
import { ChevronDown, ChevronRight } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { Button } from 'react-aria-components'
import { revealed } from '../lib/hidden'
import css from './Json.module.css'

const ITEMS_AT_ONCE = 200

export function Json({
  value,
  openDepth = 3,
  textAtOnce = Number.POSITIVE_INFINITY,
}: {
  value: unknown
  openDepth?: number
  /** Longer texts are shown a part at a time. */
  textAtOnce?: number
}) {
  return (
    <div className={css.json}>
      <Node value={value} depth={0} openDepth={openDepth} textAtOnce={textAtOnce} />
    </div>
  )
}

function Node({
  name,
  value,
  depth,
  openDepth,
  textAtOnce,
}: {
  name?: string
  value: unknown
  depth: number
  openDepth: number
  textAtOnce: number
}) {
  const [isOpen, setOpen] = useState(depth < openDepth)
  const [shown, setShown] = useState(ITEMS_AT_ONCE)
  const label: ReactNode = name === undefined ? null : <span className={css.name}>{revealed(name)}: </span>
  if (typeof value !== 'object' || value === null) {
    return (
      <div className={css.line}>
        {label}
        <Scalar value={value} textAtOnce={textAtOnce} />
      </div>
    )
  }
  const isList = Array.isArray(value)
  const members = isList
    ? value.map((item, index) => [String(index), item] as const)
    : Object.entries(value as Record<string, unknown>)
  const [open, close] = isList ? ['[', ']'] : ['{', '}']
  if (members.length === 0) {
    return (
      <div className={css.line}>
        {label}
        <span className={css.mark}>{open + close}</span>
      </div>
    )
  }
  return (
    <div>
      <div className={css.line}>
        <Button
          className={css.fold ?? ''}
          aria-expanded={isOpen}
          aria-label={`${isOpen ? 'Fold' : 'Unfold'} ${name ?? 'value'}`}
          onPress={() => setOpen(!isOpen)}
        >
          {isOpen ? <ChevronDown /> : <ChevronRight />}
        </Button>
        {label}
        <span className={css.mark}>{open}</span>
        {!isOpen && (
          <span className={css.quiet}>
            {members.length} {isList ? 'item' : 'member'}
            {members.length === 1 ? '' : 's'}
            <span className={css.mark}>{close}</span>
          </span>
        )}
      </div>
      {isOpen && (
        <>
          <div className={css.members}>
            {members.slice(0, shown).map(([key, item]) => (
              <Node
                key={key}
                value={item}
                depth={depth + 1}
                openDepth={openDepth}
                textAtOnce={textAtOnce}
                {...(isList ? {} : { name: key })}
              />
            ))}
            {members.length > shown && (
              <Button className={css.more ?? ''} onPress={() => setShown(shown + ITEMS_AT_ONCE)}>
                {members.length - shown} more
              </Button>
            )}
          </div>
          <div className={css.mark}>{close}</div>
        </>
      )}
    </div>
  )
}

function Scalar({ value, textAtOnce }: { value: unknown; textAtOnce: number }) {
  const [shown, setShown] = useState(textAtOnce)
  if (typeof value === 'string') {
    return (
      <>
        <span className={css.text}>"{revealed(value.slice(0, shown))}"</span>
        {value.length > shown && (
          <Button className={css.more ?? ''} onPress={() => setShown(shown + textAtOnce)}>
            {value.length - shown} more letters
          </Button>
        )}
      </>
    )
  }
  if (value === null || value === undefined) return <span className={css.quiet}>null</span>
  return <span className={css.number}>{String(value)}</span>
}
