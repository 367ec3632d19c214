// What the router shows where a page is not there: yet, any more, or at all.
import type { ErrorComponentProps } from '@tanstack/react-router'
import { Link } from '@tanstack/react-router'
import { to } from '../paths'
import { Empty } from '../ui/Empty'
import { Body, Page } from '../ui/Page'
import { Problem } from '../ui/Problem'
import { SkeletonRows } from '../ui/Skeleton'

export function Pending() {
  return <SkeletonRows />
}

export function Failed({ error, reset }: ErrorComponentProps) {
  return (
    <Body narrow>
      <Problem error={error} retry={reset} />
    </Body>
  )
}

export function Nothing() {
  return (
    <Page title="Nothing here">
      <Empty title="There is no such page">
        It may have moved, or the address has a slip. <Link {...to.home()}>Go home</Link>.
      </Empty>
    </Page>
  )
}
