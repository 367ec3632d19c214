// One short question to a model, by the way that agents' questions go.
import { type FormEvent, useState } from 'react'
import { sentence } from '../../api/errors'
import { may, useMe } from '../../app/session'
import { revealed } from '../../lib/hidden'
import { duration } from '../../lib/time'
import { Button } from '../../ui/Button'
import { ScriptedBadge } from '../../ui/domain'
import { TextField } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { Prose } from '../../ui/Prose'
import { Section } from '../../ui/Section'
import css from './providers.module.css'
import { type Shown, testProvider, useProviderChange } from './queries'

export function Try({ provider }: { provider: Shown }) {
  const me = useMe()
  const priced = Object.keys(provider.prices ?? {}).find((model) => model !== '*')
  const [model, setModel] = useState(priced ?? (provider.scripted ? 'any' : ''))
  const [prompt, setPrompt] = useState('')
  const test = useProviderChange(testProvider)
  const off = whyNot(may(me, 'agents.manage'), model)
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (off === undefined && !test.isPending) test.mutate({ provider: provider.name, model: model.trim(), prompt })
  }
  return (
    <Section title="Test" note="Asks one short question, with your secrets, and waits a minute at most.">
      <form className={css.try} onSubmit={send}>
        <TextField label="Model" value={model} onChange={setModel} mono />
        <TextField
          label="Question"
          value={prompt}
          onChange={setPrompt}
          hint="Without one it is asked to say that it is ready."
        />
        <Button kind="primary" type="submit" disabledReason={off} isPending={test.isPending}>
          Test
        </Button>
      </form>
      <div role="status">{test.data && <Tested tested={test.data} />}</div>
      {test.isError && <Problem error={test.error} />}
    </Section>
  )
}

function whyNot(mayTest: boolean, model: string): string | undefined {
  if (!mayTest) return 'Authors and administrators test providers'
  return model.trim() === '' ? 'Name a model first' : undefined
}

function Tested({ tested }: { tested: Awaited<ReturnType<typeof testProvider>> }) {
  const { answer, error, duration_ms, scripted, model } = tested
  if (answer) {
    const { usage, cost, currency, text } = answer
    return (
      <div className={css.tested} data-well>
        <p>
          <b>
            {model} answered in {duration(duration_ms)}.
          </b>{' '}
          {scripted && <ScriptedBadge />}
        </p>
        <blockquote>{text === '' ? <span className={css.quiet}>It said nothing.</span> : revealed(text)}</blockquote>
        <p className={css.quiet}>
          {usage.input_tokens ?? 0} tokens in, {usage.output_tokens ?? 0} out,{' '}
          {cost ? `${cost} ${currency}` : 'cost unknown: it has no price'}
        </p>
      </div>
    )
  }
  return (
    <div className={css.tested}>
      <p>
        <b>
          {model} did not answer ({duration(duration_ms)}).
        </b>
      </p>
      {error && (
        <>
          <p>
            <Prose text={sentence(error.message)} />
          </p>
          <p>
            <code>{error.code}</code>
          </p>
        </>
      )}
    </div>
  )
}
