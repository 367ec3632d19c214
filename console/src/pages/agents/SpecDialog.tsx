// Makes or changes an agent, a profile or a provider: the form comes from the API's description of it, the verdict from the server.
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useId, useMemo, useState } from 'react'
import { asApiError } from '../../api/errors'
import { specQuery } from '../../api/spec'
import type { JsonSchema } from '../../form/json'
import { SchemaForm } from '../../form/SchemaForm'
import { initialValue, type Json, prune } from '../../form/schema'
import { Button } from '../../ui/Button'
import { Dialog } from '../../ui/Dialog'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import css from './agents.module.css'

export function SpecDialog<Spec>({
  title,
  component,
  shaped = (schema) => schema,
  about,
  value,
  save,
  onClose,
}: {
  title: string
  /** The name of its schema in the API's description. */
  component: 'AgentSpec' | 'Profile' | 'Provider'
  /** The schema as the form shows it: in another order, with other words. */
  shaped?: (schema: JsonSchema) => JsonSchema
  /** What is said above the form. */
  about?: ReactNode
  /** What is there already; nothing for a new one. */
  value?: Spec
  save: (spec: Spec) => Promise<unknown>
  onClose: () => void
}) {
  const schema = useQuery(specQuery(component))
  const [edited, setEdited] = useState<Json | undefined>(value as Json | undefined)
  const [error, setError] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  // The same findings until the next answer: the form drops each as soon as its field is changed.
  const findings = useMemo(() => (error === undefined ? [] : asApiError(error).findings), [error])
  const form = useId()
  if (schema.isPending || schema.isError) {
    return (
      <Dialog title={title} isOpen onClose={onClose}>
        {schema.isError ? (
          <Problem error={schema.error} retry={() => void schema.refetch()} />
        ) : (
          <SkeletonRows rows={4} />
        )}
      </Dialog>
    )
  }
  const described = shaped(schema.data)
  const shown = edited ?? initialValue(described)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    try {
      await save(prune(shown) as Spec)
      onClose()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" form={form} kind="primary" isDisabled={busy}>
            Save
          </Button>
        </>
      }
    >
      <form id={form} className={css.form} onSubmit={(event) => void submit(event)} noValidate>
        {error !== undefined && findings.length === 0 && <Problem error={error} />}
        {about}
        <SchemaForm schema={described} value={shown} onChange={setEdited} findings={findings} id={component} />
      </form>
    </Dialog>
  )
}
