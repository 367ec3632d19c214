// Every example schema of `@jsonforms/examples`: it is shown, it changes nothing by itself, and what is typed lands where
// it belongs.
import { cleanup, fireEvent, within as inside, render, screen } from '@testing-library/react'
import fc from 'fast-check'
import { useState } from 'react'
import { afterEach, describe, expect, it } from 'vitest'
import { valuesOf } from './arbitrary'
import { examples } from './examples'
import { at, type Json, type JsonSchema, same } from './json'
import { modelOf } from './model'
import { SchemaForm } from './SchemaForm'
import { initialValue, prune, validate } from './schema'

afterEach(cleanup)

function shown(schema: JsonSchema, first: Json) {
  const seen: Json[] = []
  function Holder() {
    const [value, setValue] = useState(first)
    return (
      <SchemaForm
        id="form"
        schema={schema}
        value={value}
        findings={[]}
        onChange={(next) => {
          seen.push(next)
          setValue(next)
        }}
      />
    )
  }
  const { unmount } = render(<Holder />)
  return { seen, unmount }
}

/** Everything of the value outside of the place is as it was. */
function onlyAt(before: Json, after: Json, pointer: string): boolean {
  const cut = pointer.lastIndexOf('/')
  if (cut === -1) return true
  const [parent, name] = [pointer.slice(0, cut), pointer.slice(cut + 1)]
  const [left, right] = [at(before, parent), at(after, parent)]
  const rest = (value: Json | undefined) =>
    typeof value === 'object' && value !== null
      ? Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))
      : {}
  return same(rest(left), rest(right)) && onlyAt(before, after, parent)
}

// A form of hundreds of fields takes seconds in a DOM without a browser.
const SLOW_MS = 120_000
const TYPED_MAX = 12

describe.each(examples())('$name', { timeout: SLOW_MS }, ({ schema, data }) => {
  const model = modelOf(schema)
  const isHuge = JSON.stringify(schema).length > 10_000

  it('is shown and changes nothing by itself', () => {
    for (const value of [initialValue(schema), data ?? {}]) {
      const { seen, unmount } = shown(schema, value)
      expect(screen.getByRole('group', { name: 'Input' })).toBeTruthy()
      expect(seen).toEqual([])
      unmount()
    }
  })

  it('is shown for any value', () => {
    fc.assert(
      fc.property(valuesOf(model, model.root), (value) => {
        const { seen, unmount } = shown(schema, value)
        unmount()
        return seen.length === 0
      }),
      { numRuns: isHuge ? 1 : 6, seed: 7 },
    )
  })

  it('puts what is typed where it belongs', () => {
    const first = isHuge ? {} : (data ?? initialValue(schema))
    const { seen } = shown(schema, first)
    const form = screen.getByRole('group', { name: 'Input' })
    let typed = 0
    for (const pointer of [...form.querySelectorAll('[data-pointer]')].map(
      (field) => field.getAttribute('data-pointer') ?? '',
    )) {
      const field = form.querySelector(`[data-pointer="${CSS.escape(pointer)}"]`)
      const input = field?.querySelector<HTMLInputElement>(':scope > input[type=text], :scope > textarea')
      if (!field || !input || input.readOnly || pointer.includes('#') || typed >= TYPED_MAX) continue
      typed += 1
      const isJson = input.placeholder.startsWith('JSON')
      const before = seen.at(-1) ?? first
      fireEvent.change(input, {
        target: {
          value: isJson ? '[1]' : input.inputMode === 'numeric' || input.inputMode === 'decimal' ? '42' : 'typed',
        },
      })
      const after = seen.at(-1) ?? first
      const written = at(after, pointer)
      expect(
        [42, 'typed', '[1]'].includes(JSON.stringify(written) === '[1]' ? '[1]' : (written as string | number)),
        `${pointer}: ${JSON.stringify(written)}`,
      ).toBe(true)
      expect(onlyAt(before, after, pointer), pointer).toBe(true)
    }
    expect(inside(form).queryAllByRole('alert')).toEqual([])
  })

  it('sends a value as it is, and judges the same value the same way twice', () => {
    fc.assert(
      fc.property(valuesOf(model, model.root), (value) => {
        const once = validate(schema, value)
        expect(validate(schema, value)).toEqual(once)
        for (const { message } of once) expect(message).toMatch(/^[A-ZÄÖÜ].*\.$/)
        const valid = model.fits(value, model.root)
        if (valid === true) expect(once).toEqual([])
        // What is missing and has a default is filled in by the server.
        if (valid === false && !JSON.stringify(schema).includes('"default"')) expect(once.length).toBeGreaterThan(0)
        if (once.length === 0) expect(prune(value, schema)).toEqual(value)
      }),
      { numRuns: 40, seed: 7 },
    )
  })
})
