// Which texts the calendar can show; others stay in a field for text, so that nothing is lost.
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/
const TIME = /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(z|[+-]\d\d:\d\d)?$/i
const INSTANT = /^\d{4}-\d\d-\d\dt([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(z|[+-]\d\d:\d\d)$/i

export function isReadableDate(kind: 'date' | 'date-time' | 'time', value: string): boolean {
  if (kind === 'time') return TIME.test(value)
  if (kind === 'date-time') return INSTANT.test(value) && isDay(value.slice(0, 10))
  return isDay(value)
}

function isDay(value: string): boolean {
  const [, year, month, day] = DATE.exec(value) ?? []
  if (year === undefined) return false
  const date = new Date(Date.UTC(Number(year), Number(month) - 1, Number(day)))
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day) && Number(year) > 0
}
