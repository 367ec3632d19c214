// Where a browser comes back to from whoever gives tokens: ends what was begun, once.
import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { to } from '../../paths'
import { Empty } from '../../ui/Empty'
import { notify } from '../../ui/Notices'
import { Body, Page } from '../../ui/Page'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { forget, remembered } from './connecting'
import { endConnection, useUpstreamChange } from './queries'

export function ConnectedPage() {
  const navigate = useNavigate()
  const [name] = useState(remembered)
  // The router drops what it does not know of an address: it is taken before.
  const [answer] = useState(() => window.location.href)
  const end = useUpstreamChange(endConnection)
  const isSent = useRef(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is sent once: a code is good once
  useEffect(() => {
    if (name === undefined || isSent.current) return
    isSent.current = true
    forget()
    end.mutate(
      { name, answer },
      {
        onSuccess: () => {
          notify(`${name} is connected.`)
          void navigate({ ...to.upstream(name), replace: true })
        },
      },
    )
  }, [])
  return (
    <Page title="Connecting">
      {name === undefined ? (
        <Empty title="Nothing is being connected in this tab" command="toolgate upstream connect NAME">
          Begin on the page of the server.
        </Empty>
      ) : end.isError ? (
        <Body narrow>
          <Problem error={end.error} />
        </Body>
      ) : (
        <SkeletonRows rows={3} />
      )}
    </Page>
  )
}
