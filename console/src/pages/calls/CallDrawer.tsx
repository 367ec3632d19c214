// A call beside the list, so that one can go through many; its address is the list's with `call`.
import { ChevronDown, ChevronUp } from 'lucide-react'
import { useEffect } from 'react'
import { Button } from '../../ui/Button'
import { Drawer } from '../../ui/Dialog'
import css from './Call.module.css'
import { CallView } from './CallView'
import type { CallRow } from './queries'

export function CallDrawer({
  id,
  rows,
  onOpen,
}: {
  id: string | undefined
  rows: readonly CallRow[]
  /** Empty: none. */
  onOpen: (id: string) => void
}) {
  const at = rows.findIndex((row) => row.id === id)
  const newer = at > 0 ? rows[at - 1]?.id : undefined
  const older = at >= 0 ? rows[at + 1]?.id : undefined
  useEffect(() => {
    if (!id) return
    const pressed = (event: KeyboardEvent) => {
      const writing =
        event.target instanceof HTMLElement && event.target.closest('input, textarea, select, [role="listbox"]')
      if (writing || event.metaKey || event.ctrlKey || event.altKey) return
      const next = event.key === 'j' ? older : event.key === 'k' ? newer : undefined
      if (next) onOpen(next)
    }
    window.addEventListener('keydown', pressed)
    return () => window.removeEventListener('keydown', pressed)
  }, [id, newer, older, onOpen])
  return (
    <Drawer title="Call" isOpen={id !== undefined} onClose={() => onOpen('')}>
      {id !== undefined && (
        <>
          <div className={css.steps}>
            <Button
              kind="quiet"
              size="small"
              aria-label="Newer call (k)"
              icon={<ChevronUp aria-hidden="true" />}
              {...(newer ? { onPress: () => onOpen(newer) } : { disabledReason: 'This is the first of the list' })}
            />
            <Button
              kind="quiet"
              size="small"
              aria-label="Older call (j)"
              icon={<ChevronDown aria-hidden="true" />}
              {...(older ? { onPress: () => onOpen(older) } : { disabledReason: 'This is the last that is loaded' })}
            />
          </div>
          <CallView key={id} id={id} frame="drawer" />
        </>
      )}
    </Drawer>
  )
}
