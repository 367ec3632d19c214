// A list that others add to while one reads it: what is new waits behind a bar, so that nothing moves under the pointer;
// up and down go through its rows.
import { ArrowUp } from 'lucide-react'
import { type ReactNode, useCallback, useRef } from 'react'
import { moveAmongLinks } from './arrows'
import { Button } from './Button'
import css from './LiveList.module.css'

export function LiveList({
  fresh,
  showNew,
  isStale = false,
  children,
}: {
  /** How many are new, and whether there may be more of them. */
  fresh: { count: number; isMore: boolean }
  showNew: () => void
  /** What is shown was the answer to another question; the new one is on its way. */
  isStale?: boolean
  children: ReactNode
}) {
  const list = useRef<HTMLDivElement>(null)
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the links in it have the focus
    <div
      ref={list}
      className={isStale ? `${css.list} ${css.stale}` : css.list}
      onKeyDown={(event) => moveAmongLinks(event, list.current)}
    >
      <div className={css.fresh} role="status">
        {fresh.count > 0 && (
          <Button kind="primary" size="small" icon={<ArrowUp aria-hidden="true" />} onPress={showNew}>
            {fresh.count}
            {fresh.isMore ? '+' : ''} new
          </Button>
        )}
      </div>
      {children}
    </div>
  )
}

interface Paged {
  hasNextPage: boolean
  isFetchingNextPage: boolean
  fetchNextPage: () => Promise<unknown>
}

/** Fetches the next page, unless there is none or it is on its way. */
export function useMore({ hasNextPage, isFetchingNextPage, fetchNextPage }: Paged): () => void {
  return useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage()
  }, [hasNextPage, isFetchingNextPage, fetchNextPage])
}

/** `1 call`, `1,204 calls`, `400 and more`. */
export function counted(count: number, isMore: boolean, one: string): string {
  const shown = count.toLocaleString('en')
  if (isMore) return `${shown} and more`
  return count === 1 ? `1 ${one}` : `${shown} ${one}s`
}
