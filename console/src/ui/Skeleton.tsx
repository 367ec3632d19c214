// Rows that will be there: as high as the real ones, so that nothing jumps.
import css from './Skeleton.module.css'

const WIDTHS = ['62%', '48%', '71%', '55%', '66%', '43%', '58%', '69%']

export function SkeletonRows({ rows = 8 }: { rows?: number }) {
  return (
    <div role="status" aria-label="Loading">
      {WIDTHS.slice(0, rows).map((width) => (
        <div key={width} className={css.row}>
          <span style={{ width }} />
        </div>
      ))}
    </div>
  )
}
