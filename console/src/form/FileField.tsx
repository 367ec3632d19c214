// A file as base64 in the value: dropped, pasted or chosen.
import { FileText, Trash2, Upload } from 'lucide-react'
import { useRef, useState } from 'react'
import { revealed } from '../lib/hidden'
import { Button } from '../ui/Button'
import { useForm } from './context'
import css from './Form.module.css'
import { useControl } from './Frame'
import type { Json, JsonObject } from './json'
import { bytesWords } from './words'

/** A call holds 1 MiB, and base64 takes four bytes for three. */
export const FILE_BYTES_MAX = 700_000

const PICTURE = /^image\/(png|jpeg|gif|webp)$/
const PREVIEW_LETTERS_MAX = 1_000_000

export function FileField({
  schema,
  value,
  onChange,
  pointer,
  required,
  label,
  hasHint,
}: {
  schema: JsonObject
  value: Json | undefined
  onChange: (value: Json | undefined) => void
  pointer: string
  required: boolean
  label: string
  hasHint: boolean
}) {
  const { block } = useForm()
  const { id, disabled, ...control } = useControl(pointer, required, hasHint)
  const picker = useRef<HTMLInputElement>(null)
  const [isOver, setOver] = useState(false)
  const [name, setName] = useState('')
  const [refusal, setRefusal] = useState('')
  const accept = typeof schema.contentMediaType === 'string' ? schema.contentMediaType : ''
  const asUrl = schema.format === 'data-url' || schema.format === 'data-uri'
  const max = fileBytesMax(schema)
  const data = typeof value === 'string' && value !== '' ? value : undefined

  const take = async (file: File | undefined) => {
    if (!file || disabled) return
    if (file.size > max) {
      setRefusal(`${file.name} has ${bytesWords(file.size)}; ${bytesWords(max)} is the limit here.`)
      return
    }
    if (accept !== '' && !fitsMedia(file.type, accept)) {
      setRefusal(`${file.name} is ${file.type || 'of an unknown type'}; ${accept} is asked for.`)
      return
    }
    setRefusal('')
    block(pointer, `${file.name} is still being read.`)
    try {
      const encoded = encodedBytes(new Uint8Array(await file.arrayBuffer()))
      const urlSafe = schema.contentEncoding === 'base64url'
      setName(file.name)
      onChange(
        asUrl
          ? `data:${file.type || 'application/octet-stream'};base64,${encoded}`
          : urlSafe
            ? forUrl(encoded)
            : encoded,
      )
    } catch {
      setRefusal(`${file.name} could not be read.`)
    }
    block(pointer, undefined)
  }

  return (
    <div
      role="group"
      aria-labelledby={`${id}-label`}
      className={css.drop}
      data-over={isOver || undefined}
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        void take(event.dataTransfer.files[0])
      }}
      onPaste={(event) => void take(event.clipboardData.files[0])}
    >
      <input
        ref={picker}
        type="file"
        className="visually-hidden"
        tabIndex={-1}
        aria-hidden="true"
        {...(accept === '' ? {} : { accept })}
        onChange={(event) => {
          void take(event.currentTarget.files?.[0])
          event.currentTarget.value = ''
        }}
      />
      {data === undefined ? (
        <>
          <Upload aria-hidden="true" />
          <span className={css.quiet}>{isOver ? 'Let go to take it' : 'Drop a file here, or'}</span>
          <Button
            id={id}
            size="small"
            isDisabled={disabled}
            aria-label={`Choose a file for ${label}`}
            {...described(control)}
            onPress={() => picker.current?.click()}
          >
            Choose file
          </Button>
          <span className={css.quiet}>
            {accept === '' ? '' : `${accept}, `}up to {bytesWords(max)}
          </span>
        </>
      ) : (
        <>
          <Preview data={data} media={accept} />
          <span className={css.fileName}>
            {name === '' ? 'A file' : revealed(name)}{' '}
            <span className={css.quiet}>{bytesWords(decodedLength(data))}</span>
          </span>
          <Button
            id={id}
            kind="quiet"
            size="small"
            isDisabled={disabled}
            aria-label={`Remove the file of ${label}`}
            icon={<Trash2 aria-hidden="true" />}
            onPress={() => {
              setName('')
              onChange(undefined)
            }}
          />
        </>
      )}
      <p role="status" className={refusal === '' ? 'visually-hidden' : css.wrong}>
        {refusal}
      </p>
    </div>
  )
}

function described(control: { 'aria-describedby': string | undefined }) {
  return control['aria-describedby'] === undefined ? {} : { 'aria-describedby': control['aria-describedby'] }
}

function Preview({ data, media }: { data: string; media: string }) {
  const type = data.startsWith('data:') ? (data.slice(5).split(/[;,]/, 1)[0] ?? '') : mediaOf(data) || media
  if (!PICTURE.test(type) || data.length > PREVIEW_LETTERS_MAX) return <FileText aria-hidden="true" />
  const source = data.startsWith('data:') ? data : `data:${type};base64,${data}`
  return <img src={source} alt="" className={css.preview} />
}

/** By how the bytes begin: the name of a type proves nothing. */
export function mediaOf(base64: string): string {
  if (base64.startsWith('iVBORw0KGgo')) return 'image/png'
  if (base64.startsWith('/9j/')) return 'image/jpeg'
  if (base64.startsWith('R0lGOD')) return 'image/gif'
  if (base64.startsWith('UklGR')) return 'image/webp'
  return ''
}

export function fileBytesMax(schema: JsonObject): number {
  const letters = typeof schema.maxLength === 'number' ? schema.maxLength : Number.POSITIVE_INFINITY
  return Math.min(FILE_BYTES_MAX, Math.floor((letters / 4) * 3))
}

export function fitsMedia(type: string, accept: string): boolean {
  return accept.split(',').some((wanted) => {
    const pattern = wanted.trim().toLowerCase()
    if (pattern === '*/*' || pattern === 'application/octet-stream' || pattern === type.toLowerCase()) return true
    return pattern.endsWith('/*') && type.toLowerCase().startsWith(pattern.slice(0, -1))
  })
}

const PIECE = 0x8000

function encodedBytes(bytes: Uint8Array): string {
  const pieces: string[] = []
  for (let from = 0; from < bytes.length; from += PIECE)
    pieces.push(String.fromCharCode(...bytes.subarray(from, from + PIECE)))
  return btoa(pieces.join(''))
}

const forUrl = (base64: string) => base64.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')

export function decodedLength(data: string): number {
  const base64 = data.startsWith('data:') ? data.slice(data.indexOf(',') + 1) : data
  return Math.floor((base64.replace(/=+$/, '').length * 3) / 4)
}
