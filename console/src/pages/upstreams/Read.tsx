// What came of reading a server: each tool and what became of it.
import { Link } from '@tanstack/react-router'
import { revealed } from '../../lib/hidden'
import { to } from '../../paths'
import { Badge, type Tone } from '../../ui/Badge'
import { Time } from '../../ui/Time'
import { FindingList } from '../workflows/Findings'
import type { Reading } from './queries'
import css from './upstreams.module.css'

type Outcome = Reading['tools'][number]['outcome']

const OUTCOMES: Readonly<Record<Outcome, readonly [tone: Tone, words: string]>> = {
  new: ['ok', 'new'],
  unchanged: ['idle', 'unchanged'],
  updated: ['ok', 'updated'],
  offered: ['warn', 'changed: offered'],
  declined: ['idle', 'changed: refused'],
  back: ['ok', 'offered again'],
  gone: ['bad', 'gone'],
  refused: ['bad', 'left out'],
}

export function Read({ reading, at }: { reading: Reading; at?: string | null | undefined }) {
  return (
    <>
      {at && (
        <p className={css.quiet}>
          Read <Time at={at} />.
        </p>
      )}
      {reading.problem && <p>{revealed(reading.problem)}</p>}
      {reading.tools.length === 0 ? (
        <p className={css.quiet}>It offers no tools.</p>
      ) : (
        <ul className={css.list}>
          {reading.tools.map(({ tool, name, outcome, version, findings }) => {
            const [tone, words] = OUTCOMES[outcome]
            return (
              <li key={tool}>
                <span className={css.words}>
                  {name ? (
                    <Link {...to.tool(name)}>
                      <code>{revealed(name)}</code>
                    </Link>
                  ) : (
                    <code>{revealed(tool)}</code>
                  )}{' '}
                  {version && <span className={css.quiet}>{version}</span>}
                </span>
                <Badge tone={tone} shape={tone === 'idle' ? 'none' : tone === 'ok' ? 'dot' : 'diamond'}>
                  {words}
                </Badge>
                {findings && findings.length > 0 && <FindingList findings={findings} />}
              </li>
            )
          })}
        </ul>
      )}
      {reading.findings && reading.findings.length > 0 && <FindingList findings={reading.findings} />}
    </>
  )
}
