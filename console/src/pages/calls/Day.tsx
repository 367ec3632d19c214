// A day, by the browser's own field: it is keyboard-complete and speaks the person's language.
import { type ReactNode, useId } from 'react'
import css from './CallsPage.module.css'

export function Day({
  label,
  icon,
  value,
  onChange,
}: {
  label: string
  icon?: ReactNode
  value: string
  onChange: (day: string) => void
}) {
  const id = useId()
  return (
    <div className={css.day} data-chosen={value !== '' || undefined}>
      <label htmlFor={id}>
        {icon} {label}
      </label>
      <input id={id} type="date" value={value.slice(0, 10)} onChange={(event) => onChange(event.target.value)} />
    </div>
  )
}
