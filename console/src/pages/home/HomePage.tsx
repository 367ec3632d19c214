// The first page: what needs me, what happens, what it costs, what is stopped.
import { useQuery } from '@tanstack/react-query'
import { may, useMe } from '../../app/session'
import { Body, Page } from '../../ui/Page'
import { Activity } from './Activity'
import { Cost } from './Cost'
import { Failures } from './Failures'
import { FirstSteps } from './FirstSteps'
import css from './HomePage.module.css'
import { NeedsMe } from './NeedsMe'
import { home } from './queries'
import { Stopped } from './Stopped'

export function HomePage() {
  const me = useMe()
  const warning = useQuery(home.warning())
  return (
    <Page title="Home">
      {warning.data && (
        <p className={css.banner} role="alert">
          <b>Development bypass.</b> Calls may run without anybody’s approval on this server. Set{' '}
          <code>dev_bypass</code> to false before anybody else uses it.
        </p>
      )}
      {may(me, 'agents.read') && <Stopped />}
      <Body>
        <div className={css.columns}>
          <div className={css.column}>
            <FirstSteps />
            <NeedsMe />
            <Failures />
          </div>
          <div className={css.column}>
            <Activity />
            {may(me, 'usage.read') && <Cost />}
          </div>
        </div>
      </Body>
    </Page>
  )
}
