// How high the rows of a list are: 40 px, and as much as a finger needs on a phone.
import { useSyncExternalStore } from 'react'

const ROW_PX = 40
const PHONE_ROW_PX = 48
const phone = globalThis.matchMedia?.('(width <= 640px)')

export function useRowPx(): number {
  return useSyncExternalStore(
    (changed) => {
      phone?.addEventListener('change', changed)
      return () => phone?.removeEventListener('change', changed)
    },
    () => (phone?.matches ? PHONE_ROW_PX : ROW_PX),
  )
}
