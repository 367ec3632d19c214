import { describe, expect, it } from 'vitest'
import { differenceLines, foreseenParts, typed } from './foreseen'

describe('a plan in parts', () => {
  it('shows a command as one would type it, and where each word ends', () => {
    const plan = { would_run: true, command: ['/bin/deploy', '--to', 'two words', "it's"], env: [], timeout_ms: 5 }
    expect(foreseenParts(plan)).toEqual([
      { kind: 'command', name: 'command', words: ['/bin/deploy', '--to', "'two words'", `'it'\\''s'`] },
      { kind: 'fact', name: 'env', text: 'none' },
      { kind: 'fact', name: 'timeout_ms', text: '5' },
    ])
    expect(typed('')).toBe("''")
    expect(typed('a;b')).toBe("'a;b'")
  })

  it('shows a difference by its lines and leaves the file names out', () => {
    expect(differenceLines('--- app\n+++ app\n@@ -3 +3 @@\n a: 1\n-b: 1\n+b: 2\n')).toEqual([
      { kind: 'gap', text: 'line 3' },
      { kind: 'same', text: 'a: 1' },
      { kind: 'removed', text: 'b: 1' },
      { kind: 'added', text: 'b: 2' },
    ])
  })

  it('opens a small value by its members and shows a large one whole', () => {
    expect(foreseenParts({ dry_run: { stdout: 'a\nb', exit_code: 0 } })).toEqual([
      { kind: 'text', name: 'dry_run.stdout', text: 'a\nb' },
      { kind: 'fact', name: 'dry_run.exit_code', text: '0' },
    ])
    expect(foreseenParts({ steps: [{ tool: 'a' }] })[0]).toMatchObject({ kind: 'text', name: 'steps' })
    expect(foreseenParts('done')).toEqual([{ kind: 'fact', name: '', text: 'done' }])
  })
})
