// Every kind of field and output on one page: a gallery, and the picture the visual tests take.
import { useState } from 'react'
import type { Finding } from '../../api/errors'
import type { Json } from '../../form/json'
import { SchemaForm } from '../../form/SchemaForm'
import { prune, validate } from '../../form/schema'
import { Output } from '../../output/Output'
import { Button } from '../../ui/Button'
import { Json as JsonTree } from '../../ui/Json'
import { Body, Page } from '../../ui/Page'
import css from './Fields.module.css'
import { FORMS, type FormSample, OUTPUTS } from './samples'

export function FieldsPage() {
  return (
    <Page title="Fields" count="every kind of field and output">
      <Body>
        <div className={css.gallery}>
          {FORMS.map((sample) => (
            <FormPanel key={sample.id} sample={sample} />
          ))}
          {OUTPUTS.map(({ id, title, result, sections }) => (
            <section key={id} className={css.panel} aria-labelledby={`${id}-title`} data-testid={`output-${id}`}>
              <h2 id={`${id}-title`}>{title}</h2>
              <Output result={result} {...(sections ? { sections } : {})} />
            </section>
          ))}
        </div>
      </Body>
    </Page>
  )
}

function FormPanel({ sample: { id, title, schema, value: first } }: { sample: FormSample }) {
  const [value, setValue] = useState<Json>(first)
  const [findings, setFindings] = useState<readonly Finding[]>([])
  const [blocked, setBlocked] = useState<string>()
  return (
    <section className={css.panel} aria-labelledby={`${id}-title`} data-testid={`form-${id}`}>
      <h2 id={`${id}-title`}>{title}</h2>
      <div className={css.pair}>
        <SchemaForm
          id={id}
          schema={schema}
          value={value}
          onChange={setValue}
          findings={findings}
          onBlocked={setBlocked}
        />
        <div className={css.value}>
          <h3>Value</h3>
          <JsonTree value={value} openDepth={4} textAtOnce={400} />
          <div className={css.actions}>
            <Button disabledReason={blocked} onPress={() => setFindings(validate(schema, prune(value, schema)))}>
              Check
            </Button>
          </div>
        </div>
      </div>
    </section>
  )
}
