// What every field of one form shares.
import { createContext, useContext } from 'react'
import type { Json, JsonSchema } from './json'
import type { Model } from './model'

export interface FormScope {
  model: Model
  id: string
  disabled: boolean
  /** Messages for exactly this place. */
  messagesAt: (pointer: string) => readonly string[]
  /** Something is wrong at this place or below it. */
  hasWithin: (pointer: string) => boolean
  /** Says why the value cannot be sent as it is (text that is no JSON, a file still being read); `undefined` lifts it. */
  block: (pointer: string, reason: string | undefined) => void
}

const FormContext = createContext<FormScope | undefined>(undefined)
export const FormProvider = FormContext.Provider

export function useForm(): FormScope {
  const scope = useContext(FormContext)
  if (!scope) throw new Error('a field was shown outside of a form')
  return scope
}

/** The id of the element for a place: letters that an id may hold, different for different places. */
export function idOf(form: string, pointer: string): string {
  return form + pointer.replace(/[^A-Za-z0-9_/-]/g, (letter) => `.${(letter.codePointAt(0) ?? 0).toString(16)}.`)
}

export interface NodeProps {
  schema: JsonSchema
  value: Json | undefined
  /** `undefined` takes the member away. */
  onChange: (value: Json | undefined) => void
  pointer: string
  /** The member's name; the place in a list has none. */
  name?: string
  label: string
  required: boolean
  depth: number
  /** Within a list or under a heading that says the label already: it is there, but not to be seen. */
  bare?: boolean
  /** An alternative that was chosen: the members that tell it from the others need no field. */
  chosen?: boolean
}
