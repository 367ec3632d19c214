// Dates and times with a calendar; loaded only where a schema asks for them.
import {
  getLocalTimeZone,
  now,
  parseAbsolute,
  parseDate,
  parseTime,
  Time,
  today,
  ZonedDateTime,
} from '@internationalized/date'
import { CalendarDays, ChevronLeft, ChevronRight, X } from 'lucide-react'
import {
  Button,
  Calendar,
  CalendarCell,
  CalendarGrid,
  CalendarGridBody,
  CalendarGridHeader,
  CalendarHeaderCell,
  DateInput,
  DatePicker,
  DateSegment,
  Dialog,
  Group,
  Heading,
  Popover,
  TimeField,
} from 'react-aria-components'
import { isReadableDate } from './dates'
import css from './Form.module.css'
import { useControl } from './Frame'

export interface DateFieldProps {
  kind: 'date' | 'date-time' | 'time'
  value: string | undefined
  onChange: (value: string | undefined) => void
  pointer: string
  label: string
  required: boolean
  hasHint: boolean
}

export function DateField({ kind, value, onChange, pointer, label, required, hasHint }: DateFieldProps) {
  const { id, disabled, ...control } = useControl(pointer, required, hasHint)
  const shared = {
    id,
    'aria-labelledby': `${id}-label`,
    ...(control['aria-describedby'] ? { 'aria-describedby': control['aria-describedby'] } : {}),
    isDisabled: disabled,
    isInvalid: control['aria-invalid'] ?? false,
    isRequired: required,
    validationBehavior: 'aria' as const,
    shouldForceLeadingZeros: true,
  }
  const readable = value !== undefined && isReadableDate(kind, value) ? value : undefined
  const clear = value !== undefined && !disabled && (
    <Button slot={null} className={css.tool ?? ''} aria-label={`Clear ${label}`} onPress={() => onChange(undefined)}>
      <X aria-hidden="true" />
    </Button>
  )
  if (kind === 'time') {
    return (
      <TimeField
        {...shared}
        granularity="second"
        hourCycle={24}
        value={readable === undefined ? null : parseTime(readable.replace(/(z|[+-]\d\d:\d\d)$/i, ''))}
        // The format wants a zone; a time of day alone is taken as UTC, and said so.
        onChange={(time) =>
          onChange(time === null ? undefined : `${new Time(time.hour, time.minute, time.second).toString()}Z`)
        }
      >
        <div className={css.joined}>
          <DateInput className={`${css.input} ${css.segmentsOfDate}`}>
            {(segment) => <DateSegment segment={segment} className={css.dateSegment ?? ''} />}
          </DateInput>
          <span className={css.tools}>{clear}</span>
        </div>
        <span className={css.zone}>UTC</span>
      </TimeField>
    )
  }
  const zone = getLocalTimeZone()
  return (
    <DatePicker
      {...shared}
      className={css.date ?? ''}
      granularity={kind === 'date' ? 'day' : 'second'}
      hourCycle={24}
      hideTimeZone
      placeholderValue={
        kind === 'date' ? today(zone) : now(zone).set({ hour: 0, minute: 0, second: 0, millisecond: 0 })
      }
      value={
        readable === undefined
          ? null
          : kind === 'date'
            ? parseDate(readable)
            : parseAbsolute(readable.toUpperCase(), zone)
      }
      onChange={(date) => {
        if (date === null) onChange(undefined)
        else if (kind === 'date') onChange(date.toString().slice(0, 10))
        else onChange(instantOf(date instanceof ZonedDateTime ? date.toDate() : date.toDate(zone)))
      }}
    >
      <Group className={css.joined ?? ''}>
        <DateInput className={`${css.input} ${css.segmentsOfDate}`}>
          {(segment) => <DateSegment segment={segment} className={css.dateSegment ?? ''} />}
        </DateInput>
        <span className={css.tools}>
          {clear}
          <Button className={css.tool ?? ''} aria-label={`Calendar for ${label}`}>
            <CalendarDays aria-hidden="true" />
          </Button>
        </span>
      </Group>
      {kind === 'date-time' && <span className={css.zone}>{zone}</span>}
      <Popover className={css.calendar ?? ''}>
        <Dialog aria-label={`Calendar for ${label}`}>
          <Calendar>
            <header className={css.month}>
              <Button slot="previous" className={css.tool ?? ''}>
                <ChevronLeft aria-hidden="true" />
              </Button>
              <Heading level={3} />
              <Button slot="next" className={css.tool ?? ''}>
                <ChevronRight aria-hidden="true" />
              </Button>
            </header>
            <CalendarGrid weekdayStyle="short">
              <CalendarGridHeader>
                {(day) => <CalendarHeaderCell className={css.weekday ?? ''}>{day}</CalendarHeaderCell>}
              </CalendarGridHeader>
              <CalendarGridBody>{(date) => <CalendarCell date={date} className={css.day ?? ''} />}</CalendarGridBody>
            </CalendarGrid>
          </Calendar>
        </Dialog>
      </Popover>
    </DatePicker>
  )
}

function instantOf(date: Date): string {
  return date.toISOString().replace('.000Z', 'Z')
}
