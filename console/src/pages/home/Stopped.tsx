// What is stopped: nobody should have to find that out from a failed call.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Time } from '../../ui/Time'
import css from './HomePage.module.css'
import { home } from './queries'

export function Stopped() {
  const switches = useQuery(home.stopped()).data?.items ?? []
  const agents = useQuery(home.agents()).data?.items ?? []
  const frozen = agents.filter(({ state }) => state === 'frozen')
  if (switches.length === 0 && frozen.length === 0) return null
  return (
    <section className={css.banner} aria-label="What is stopped">
      <ul>
        {switches.map(({ scope, name, reason, set_by, set_by_name, set_at, everyone }) => (
          <li key={`${scope} ${name} ${everyone}`}>
            <b>
              {scope === 'tenant' ? (
                everyone ? (
                  'Everything is stopped on this server'
                ) : (
                  'Everything is stopped here'
                )
              ) : (
                <>
                  The {scope}{' '}
                  <Link {...(scope === 'agent' ? to.agent(name) : to.tool(name))}>
                    <code>{revealed(name)}</code>
                  </Link>{' '}
                  is stopped
                </>
              )}
            </b>
            : {revealed(reason)} ({revealed(set_by_name ?? set_by)}, <Time at={set_at} />)
          </li>
        ))}
        {frozen.map(({ id, name }) => (
          <li key={id}>
            <b>
              The agent{' '}
              <Link {...to.agent(name)}>
                <code>{revealed(name)}</code>
              </Link>{' '}
              is frozen
            </b>
            : its calls are refused until it is active again
          </li>
        ))}
      </ul>
    </section>
  )
}
