// What is wrong, at the top: each line leads to its field.
import { TriangleAlert } from 'lucide-react'
import { Fragment, useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { Finding } from '../api/errors'
import { revealed } from '../lib/hidden'
import { idOf } from './context'
import css from './Form.module.css'
import { Words } from './Frame'
import { isObject, type JsonSchema, steps } from './json'
import { effective, type Model } from './model'
import { counted, humanised } from './words'

const LISTED_MAX = 12
const CONTROLS = 'input:not([type="hidden"]):not([tabindex="-1"]), textarea, select, button, [tabindex="0"]'

/** One line that leads to the fields, where it is said what is wrong. What has no field on the page is said here. */
export function Summary({ findings, form, model }: { findings: readonly Finding[]; form: string; model: Model }) {
  const box = useRef<HTMLDivElement>(null)
  const told = useRef<readonly Finding[]>([])
  const homeless = useHomeless(findings, form)
  // Whoever sent it hears what is wrong and stands where the fields are listed. Corrections only shorten the list.
  useEffect(() => {
    const isNew = findings.length > 0 && findings.some((finding) => !told.current.includes(finding))
    told.current = findings
    if (isNew) box.current?.focus()
  }, [findings])
  if (findings.length === 0) return null
  const placed = [...new Set(findings.filter((one) => !homeless.includes(one)).map(({ pointer }) => pointer))]
  return (
    <div
      ref={box}
      className={css.findings}
      role="group"
      aria-label={`${counted(findings.length, 'thing')} to correct`}
      tabIndex={-1}
    >
      <TriangleAlert aria-hidden="true" />
      <div>
        <p>
          <span className={css.findingsHead}>{counted(findings.length, 'thing')} to correct</span>
          {placed.slice(0, LISTED_MAX).map((pointer, index) => (
            <Fragment key={pointer}>
              {index === 0 ? ': ' : ', '}
              <button type="button" className={css.link} onClick={() => goTo(form, pointer)}>
                {revealed(placeWords(model, pointer))}
              </button>
            </Fragment>
          ))}
          {placed.length > LISTED_MAX && ` and ${placed.length - LISTED_MAX} more`}
        </p>
        {homeless.length > 0 && (
          <ul>
            {homeless.slice(0, LISTED_MAX).map(({ pointer, message }) => (
              <li key={`${pointer} ${message}`}>
                {pointer !== '' && (
                  <>
                    <button type="button" className={css.link} onClick={() => goTo(form, pointer)}>
                      {revealed(placeWords(model, pointer))}
                    </button>{' '}
                  </>
                )}
                <Words text={message} />
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  )
}

const NONE: readonly Finding[] = []

/** Those that no field shows: of the whole input, of a field that is not there, or while the input is written as JSON. */
function useHomeless(findings: readonly Finding[], form: string): readonly Finding[] {
  const [homeless, setHomeless] = useState(NONE)
  // Whenever the form was drawn anew: what is on the page is the truth.
  useLayoutEffect(() => {
    const found = findings.filter(({ pointer }) => document.getElementById(`${idOf(form, pointer)}-wrong`) === null)
    if (found.length !== homeless.length || found.some((one, index) => one !== homeless[index])) setHomeless(found)
  })
  return homeless
}

/** The field of the place, or the nearest one around it. */
function goTo(form: string, pointer: string): void {
  for (let place = pointer; ; place = place.slice(0, place.lastIndexOf('/'))) {
    const element = document.getElementById(idOf(form, place)) ?? document.getElementById(idOf(form, `${place}#kind`))
    if (element) {
      const control = element.matches(CONTROLS) ? element : element.querySelector<HTMLElement>(CONTROLS)
      const target = control ?? element
      target.scrollIntoView({ block: 'center' })
      target.focus({ preventScroll: true })
      return
    }
    if (place === '') return
  }
}

/** `/lines/1/sku` as a person reads it: Lines › 2 › SKU. */
export function placeWords(model: Model, pointer: string): string {
  let schema: JsonSchema | undefined = model.root
  const words: string[] = []
  for (const step of steps(pointer)) {
    const whole = effective(model, schema, undefined)
    const properties = isObject(whole.properties) ? whole.properties : {}
    const part = Object.hasOwn(properties, step) ? properties[step] : undefined
    if (isObject(part)) {
      const inner = effective(model, part, undefined)
      words.push(typeof inner.title === 'string' ? inner.title : humanised(step))
      schema = part
    } else {
      words.push(/^\d+$/.test(step) ? String(Number(step) + 1) : step)
      schema = isObject(whole.items) ? whole.items : undefined
    }
  }
  return words.length === 0 ? 'The whole input' : words.join(' › ')
}
