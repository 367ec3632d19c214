// What narrows a list down: in a row below the head of the page, behind one button on a phone.
import { SlidersHorizontal, X } from 'lucide-react'
import { type ReactNode, useId, useState } from 'react'
import { Button } from './Button'
import css from './FilterBar.module.css'

export function FilterBar({
  count,
  onClear,
  children,
}: {
  /** How many filters are set. */
  count: number
  onClear: () => void
  children: ReactNode
}) {
  const id = useId()
  const [isOpen, setOpen] = useState(false)
  return (
    <div className={css.filters}>
      <div className={css.unfold}>
        <Button
          icon={<SlidersHorizontal aria-hidden="true" />}
          aria-expanded={isOpen}
          aria-controls={id}
          onPress={() => setOpen(!isOpen)}
        >
          {count === 0 ? 'Filters' : `Filters: ${count}`}
        </Button>
      </div>
      <div id={id} className={isOpen ? `${css.choices} ${css.open}` : css.choices}>
        {children}
        {count > 0 && (
          <Button kind="quiet" size="small" icon={<X aria-hidden="true" />} onPress={onClear}>
            Clear
          </Button>
        )}
      </div>
    </div>
  )
}
