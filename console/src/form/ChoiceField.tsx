// One out of several: side by side while they are few and short, in a list while they can be overlooked, with a search
// beyond that.
import { ChevronDown } from 'lucide-react'
import {
  Button,
  ComboBox,
  Input,
  ListBox,
  ListBoxItem,
  Popover,
  Radio,
  RadioGroup,
  Select,
  SelectValue,
  Text,
} from 'react-aria-components'
import { revealed } from '../lib/hidden'
import field from '../ui/Field.module.css'
import { useForm } from './context'
import css from './Form.module.css'
import { useControl } from './Frame'
import { type Json, same } from './json'
import type { Choice } from './shape'
import { valueWords } from './words'

const SIDE_BY_SIDE_MAX = 4
const SIDE_BY_SIDE_LETTERS = 44
const OVERLOOKED_MAX = 12
const NONE = 'none'

export function ChoiceField({
  choices,
  value,
  onChange,
  empty,
  pointer,
  required,
  nullable = false,
  hasHint,
}: {
  choices: readonly Choice[]
  value: Json | undefined
  onChange: (value: Json | undefined) => void
  empty: Json | undefined
  pointer: string
  required: boolean
  nullable?: boolean
  hasHint: boolean
}) {
  const { disabled } = useForm()
  const control = useControl(pointer, required, hasHint)
  const isNone = value === undefined || (value === null && !choices.some((choice) => choice.value === null))
  const chosen = choices.findIndex((choice) => !isNone && same(choice.value, value))
  // What is there but not among the options stays, and is seen.
  const foreign =
    !isNone && chosen === -1 && value !== undefined ? [{ value, label: `${valueWords(value)} (not an option)` }] : []
  const all: readonly Choice[] = [...choices, ...foreign]
  const items = all.map((choice, index) => ({ id: String(index), ...choice }))
  const canBeNone = !required || nullable
  const key = isNone ? NONE : String(chosen === -1 ? all.length - 1 : chosen)
  const choose = (id: unknown) => {
    if (id === null || id === NONE) onChange(empty)
    else onChange(all[Number(id)]?.value)
  }
  const named = {
    'aria-labelledby': `${control.id}-label`,
    ...(control['aria-describedby'] ? { 'aria-describedby': control['aria-describedby'] } : {}),
    isInvalid: control['aria-invalid'] ?? false,
    isDisabled: disabled,
  }
  const letters = all.reduce((sum, { label }) => sum + label.length, 0)
  if (all.length <= SIDE_BY_SIDE_MAX && letters <= SIDE_BY_SIDE_LETTERS) {
    return (
      <RadioGroup
        {...named}
        id={control.id}
        className={css.segments ?? ''}
        orientation="horizontal"
        isRequired={required}
        validationBehavior="aria"
        value={isNone && !canBeNone ? null : key}
        onChange={choose}
      >
        {canBeNone && (
          <Radio value={NONE} className={`${css.segment} ${css.unset}`}>
            {nullable && empty === null ? 'null' : 'Not set'}
          </Radio>
        )}
        {items.map(({ id, label }) => (
          <Radio key={id} value={id} className={css.segment ?? ''}>
            {revealed(label)}
          </Radio>
        ))}
      </RadioGroup>
    )
  }
  const listed = canBeNone
    ? [{ id: NONE, value: null, label: nullable && empty === null ? 'null' : 'Not set' }, ...items]
    : items
  const list = (
    <Popover className={`${field.popover} ${css.popover}`}>
      <ListBox items={listed} className={field.list ?? ''}>
        {({ id, label, description }: Choice & { id: string }) => (
          <ListBoxItem id={id} textValue={label} className={field.option ?? ''}>
            <Text slot="label">{revealed(label)}</Text>
            {description !== undefined && (
              <Text slot="description" className={css.hint ?? ''}>
                {revealed(description)}
              </Text>
            )}
          </ListBoxItem>
        )}
      </ListBox>
    </Popover>
  )
  if (all.length <= OVERLOOKED_MAX) {
    return (
      <Select
        {...named}
        value={isNone && !canBeNone ? null : key}
        onChange={choose}
        validationBehavior="aria"
        placeholder="Choose…"
      >
        <Button id={control.id} className={`${field.select} ${css.select}`} data-invalid={control['aria-invalid']}>
          <SelectValue className={isNone ? (css.unset ?? '') : ''}>
            {({ selectedText }) => selectedText || 'Choose…'}
          </SelectValue>
          <ChevronDown aria-hidden="true" />
        </Button>
        {list}
      </Select>
    )
  }
  return (
    <ComboBox
      {...named}
      className={css.joined ?? ''}
      defaultItems={listed}
      validationBehavior="aria"
      isRequired={required}
      selectedKey={isNone ? null : key}
      onSelectionChange={choose}
    >
      <Input id={control.id} className={css.input ?? ''} placeholder={`Search ${choices.length} options`} />
      <span className={css.tools}>
        <Button className={css.tool ?? ''} aria-label="Show the options">
          <ChevronDown aria-hidden="true" />
        </Button>
      </span>
      {list}
    </ComboBox>
  )
}

/** Several out of few: a box for each. The order is that of the options. */
export function ChoicesField({
  choices,
  value,
  onChange,
  pointer,
  required,
  hasHint,
}: {
  choices: readonly Choice[]
  value: Json | undefined
  onChange: (value: Json | undefined) => void
  pointer: string
  required: boolean
  hasHint: boolean
}) {
  const { id, disabled, 'aria-describedby': described } = useControl(pointer, required, hasHint)
  const chosen: readonly Json[] = Array.isArray(value) ? value : []
  const toggle = (choice: Choice, isOn: boolean) => {
    const kept = chosen.filter((item) => !same(item, choice.value))
    const next = isOn ? [...kept, choice.value] : kept
    onChange(next.length === 0 && !required ? undefined : next)
  }
  return (
    <div role="group" id={id} aria-labelledby={`${id}-label`} aria-describedby={described} className={css.boxes}>
      {choices.map((choice) => (
        <label key={JSON.stringify(choice.value)} className={css.box}>
          <input
            type="checkbox"
            disabled={disabled}
            checked={chosen.some((item) => same(item, choice.value))}
            onChange={(event) => toggle(choice, event.currentTarget.checked)}
          />
          <span>{revealed(choice.label)}</span>
        </label>
      ))}
    </div>
  )
}
