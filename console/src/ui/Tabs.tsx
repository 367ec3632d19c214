// Tabs whose choice lives in the address.
import { type ReactNode, useEffect, useRef } from 'react'
import { Tabs as AriaTabs, Tab, TabList, TabPanel } from 'react-aria-components'
import css from './Tabs.module.css'

export interface TabSpec {
  id: string
  label: string
  count?: number | undefined
  content: () => ReactNode
}

export function Tabs({
  label,
  tabs,
  chosen,
  onChoose,
}: {
  label: string
  tabs: readonly TabSpec[]
  chosen: string
  onChoose: (id: string) => void
}) {
  const list = useRef<HTMLDivElement>(null)
  // On a phone not all fit: the chosen one is in sight, also when a link came to it and the counts come later.
  const counts = tabs.map(({ count }) => count).join()
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is read from the page
  useEffect(() => {
    // The tabs become elements only after this.
    const frame = requestAnimationFrame(() =>
      list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }),
    )
    return () => cancelAnimationFrame(frame)
  }, [chosen, counts])
  return (
    <AriaTabs className={css.tabs ?? ''} selectedKey={chosen} onSelectionChange={(key) => onChoose(String(key))}>
      <TabList ref={list} className={css.list ?? ''} aria-label={label}>
        {tabs.map(({ id, label: words, count }) => (
          <Tab key={id} id={id} className={css.tab ?? ''}>
            {words}
            {count !== undefined && <span className={css.count}>{count}</span>}
          </Tab>
        ))}
      </TabList>
      {tabs.map(({ id, content }) => (
        <TabPanel key={id} id={id} className={css.panel ?? ''}>
          {id === chosen ? content() : null}
        </TabPanel>
      ))}
    </AriaTabs>
  )
}
