// Light, dark, or as the system: one press further.
import { MoonStar } from 'lucide-react'
import { Button } from 'react-aria-components'
import { chooseTheme, useTheme } from './theme'

export function ThemeButton({ className = '' }: { className?: string | undefined }) {
  const theme = useTheme()
  const next = theme === 'system' ? 'dark' : theme === 'dark' ? 'light' : 'system'
  return (
    <Button className={className} onPress={() => chooseTheme(next)}>
      <MoonStar aria-hidden="true" /> <span>Theme: {theme}</span>
    </Button>
  )
}
