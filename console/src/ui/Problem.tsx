// What went wrong, in words, with its code, what to do, and the button to try again.
import { RotateCw, TriangleAlert } from 'lucide-react'
import { asApiError } from '../api/errors'
import { Button } from './Button'
import css from './Problem.module.css'
import { Prose } from './Prose'

export function Problem({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  const problem = asApiError(error)
  return (
    <div className={css.problem} role="alert">
      <TriangleAlert aria-hidden="true" />
      <div>
        <p className={css.words}>
          <Prose text={problem.message} />
        </p>
        {problem.remedy !== '' && (
          <p className={css.remedy}>
            <Prose text={problem.remedy} />
          </p>
        )}
        <p className={css.code}>
          <code>{problem.code}</code>
          {retry && (
            <Button size="small" onPress={retry} icon={<RotateCw aria-hidden="true" />}>
              Try again
            </Button>
          )}
        </p>
      </div>
    </div>
  )
}
