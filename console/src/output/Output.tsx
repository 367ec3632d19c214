// A tool's result: by the sections its definition names, else by its shape; always as JSON too.
import { Check, Copy, Download } from 'lucide-react'
import { useEffect, useState } from 'react'
import { ToggleButton, ToggleButtonGroup } from 'react-aria-components'
import type { Schemas } from '../api/client'
import form from '../form/Form.module.css'
import { isObject, type Json as JsonValue, same } from '../form/json'
import { revealed } from '../lib/hidden'
import { safeAddress } from '../lib/markdown'
import { Button } from '../ui/Button'
import { Json } from '../ui/Json'
import { WebLink } from '../ui/Markdown'
import { saved } from './download'
import { Generic } from './Generic'
import { safeJson } from './kinds'
import css from './Output.module.css'
import { Picture, pictureFrom } from './Picture'
import { Sections } from './Sections'
import { TextView } from './TextView'

/** `output_sections` of a definition. */
export interface OutputSection {
  key: string
  label: string
  type: 'summary' | 'table' | 'chart' | 'radar' | 'ranking' | 'custom'
  config?: unknown
}

export interface OutputProps {
  /** The structured output. */
  result: unknown
  /** What the tool gave beside it: texts, pictures, links. */
  content?: readonly Schemas['Content'][]
  sections?: readonly OutputSection[]
}

type Content = Schemas['Content']

const CONTENT_MAX = 50
const COPIED_MS = 1_500

export function Output({ result, content = [], sections = [] }: OutputProps) {
  const [asJson, setAsJson] = useState(false)
  const value = result === undefined ? undefined : (result as JsonValue)
  const beside = content.filter((item) => !repeats(item, value))
  const isEmpty = value === undefined || value === null
  const whole = beside.length > 0 ? (isEmpty ? beside : { structured: value, content: beside }) : (value ?? null)
  return (
    <div className={css.output}>
      <div className={css.bar}>
        <ToggleButtonGroup
          aria-label="Show the output as"
          className={`${form.segments} ${form.switch}`}
          selectionMode="single"
          disallowEmptySelection
          selectedKeys={[asJson ? 'json' : 'view']}
          onSelectionChange={(keys) => setAsJson(keys.has('json'))}
        >
          <ToggleButton id="view" className={form.segment ?? ''}>
            View
          </ToggleButton>
          <ToggleButton id="json" className={form.segment ?? ''}>
            JSON
          </ToggleButton>
        </ToggleButtonGroup>
        <CopyJson value={whole as JsonValue} />
        <Button
          kind="quiet"
          size="small"
          aria-label="Download the JSON"
          icon={<Download aria-hidden="true" />}
          onPress={() => saved('output.json', 'application/json', safeJson(whole as JsonValue, 2))}
        />
      </div>
      {asJson ? (
        <Json value={whole} textAtOnce={10_000} />
      ) : (
        <div className={css.parts}>
          {sections.length > 0 && isObject(value) ? (
            <Sections result={value} sections={sections} />
          ) : (
            (!isEmpty || beside.length === 0) && <Generic value={value} />
          )}
          {beside.slice(0, CONTENT_MAX).map((item, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: what a tool gave never moves
            <ContentView key={index} item={item} />
          ))}
          {beside.length > CONTENT_MAX && <p className={css.quiet}>{beside.length - CONTENT_MAX} more in the JSON</p>}
        </div>
      )}
    </div>
  )
}

function ContentView({ item }: { item: Content }) {
  switch (item.type) {
    case 'text':
      return <TextView text={item.text} />
    case 'image': {
      const source = pictureFrom(item.data)
      return source ? <Picture source={source} label="Picture from the tool" /> : <Attached item={item} />
    }
    case 'audio':
      return <Attached item={item} />
    case 'resource_link': {
      const href = safeAddress(item.uri)
      const words = revealed((item.name ?? item.uri).slice(0, 300))
      return href ? (
        <p>
          <WebLink href={href} words={item.name ?? item.uri}>
            {words}
          </WebLink>
        </p>
      ) : (
        <p>
          {words} <code>{revealed(item.uri.slice(0, 300))}</code>
        </p>
      )
    }
    case 'mcp':
      return <Generic value={item.block as JsonValue} depth={1} />
    default:
      return <Generic value={item.value as JsonValue} depth={1} />
  }
}

/** What the page does not play or draw can be saved. */
function Attached({ item }: { item: Extract<Content, { type: 'image' | 'audio' }> }) {
  const [isBroken, setBroken] = useState(false)
  const save = () => {
    try {
      const bytes = Uint8Array.from(atob(item.data), (letter) => letter.charCodeAt(0))
      saved(item.type, 'application/octet-stream', bytes)
    } catch {
      setBroken(true)
    }
  }
  return (
    <p className={css.attached}>
      <span>
        {item.type === 'audio' ? 'Sound' : 'Picture'}, <code>{revealed(item.mime_type.slice(0, 80))}</code>
      </span>
      <Button size="small" icon={<Download aria-hidden="true" />} onPress={save}>
        Save
      </Button>
      {isBroken && <span className={css.quiet}>It is not base64.</span>}
    </p>
  )
}

const COMPARED_MAX = 200_000

/** Many tools give their structured output once more as text. */
function repeats(item: Content, value: JsonValue | undefined): boolean {
  if (item.type === 'json') return same(item.value as JsonValue, value)
  if (item.type !== 'text' || value === undefined || value === null || item.text.length > COMPARED_MAX) return false
  if (item.text === value) return true
  try {
    return same(JSON.parse(item.text) as JsonValue, value)
  } catch {
    return false
  }
}

function CopyJson({ value }: { value: JsonValue }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return
    const done = setTimeout(() => setCopied(false), COPIED_MS)
    return () => clearTimeout(done)
  }, [isCopied])
  return (
    <Button
      kind="quiet"
      size="small"
      icon={isCopied ? <Check aria-hidden="true" /> : <Copy aria-hidden="true" />}
      onPress={() => void navigator.clipboard.writeText(safeJson(value, 2)).then(() => setCopied(true))}
    >
      {isCopied ? 'Copied' : 'Copy JSON'}
    </Button>
  )
}
