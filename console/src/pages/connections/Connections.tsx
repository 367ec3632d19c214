// What is outside of the gate and reached through it: one place in the frame, a line of places in it.
import { Link } from '@tanstack/react-router'
import { may, useMe } from '../../app/session'
import { to } from '../../paths'
import css from './Connections.module.css'

const PLACES = [
  { label: 'Model providers', link: to.providers(), permission: 'agents.read' },
  { label: 'Servers', link: to.upstreams(), permission: 'upstreams.edit' },
  { label: 'Skills', link: to.skills(), permission: 'tools.read' },
] as const

export function Connections() {
  const me = useMe()
  return (
    <nav className={css.line} aria-label="Connections">
      {PLACES.filter(({ permission }) => may(me, permission)).map(({ label, link }) => (
        <Link key={label} {...link} className={css.place} activeProps={{ 'aria-current': 'page' }}>
          {label}
        </Link>
      ))}
    </nav>
  )
}
