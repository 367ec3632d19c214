// The roles a person has, each with what it is for.
import { CheckboxGroup } from 'react-aria-components'
import { Checkbox } from '../../ui/Checkbox'
import css from './people.module.css'
import type { Role } from './queries'

const ROLES: readonly (readonly [Role, string])[] = [
  ['viewer', 'reads tools, agents and own calls'],
  ['member', 'calls tools'],
  ['approver', 'decides on calls and reads all of them'],
  ['author', 'makes tools and agents'],
  ['admin', 'manages people, policy, secrets and limits'],
  ['operator', 'runs the server: tenants, egress, keys'],
]

export function Roles({ value, onChange }: { value: readonly Role[]; onChange: (roles: Role[]) => void }) {
  return (
    <CheckboxGroup
      aria-label="Roles"
      className={css.roles ?? ''}
      value={[...value]}
      onChange={(chosen) => onChange(chosen as Role[])}
    >
      {ROLES.map(([role, words]) => (
        <Checkbox key={role} value={role}>
          <span>
            <b>{role}</b> <span className={css.quiet}>{words}</span>
          </span>
        </Checkbox>
      ))}
    </CheckboxGroup>
  )
}
