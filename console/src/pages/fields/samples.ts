// What the gallery shows: every kind of field, and every kind of output.
import type { Json, JsonSchema } from '../../form/json'
import type { OutputSection } from '../../output/Output'

export interface FormSample {
  id: string
  title: string
  schema: JsonSchema
  value: Json
}

const COUNTRIES =
  'Austria Belgium Bulgaria Croatia Cyprus Czechia Denmark Estonia Finland France Germany Greece Hungary Ireland Italy Latvia Lithuania Luxembourg Malta Netherlands Poland Portugal Romania Slovakia Slovenia Spain Sweden'

export const FORMS: readonly FormSample[] = [
  {
    id: 'scalars',
    title: 'Text, numbers, choices',
    value: { copies: 2, notify: true, fixed: 'invoice', reference: 'RG-2026-0042' },
    schema: {
      type: 'object',
      required: ['subject', 'channel', 'copies', 'fixed', 'urgent'],
      properties: {
        subject: {
          type: 'string',
          minLength: 3,
          maxLength: 80,
          examples: ['Your order has been sent'],
          description: 'One line, as the `recipient` reads it.',
        },
        body: { type: 'string', description: 'Plain text.' },
        sku: {
          type: 'string',
          title: 'SKU',
          pattern: '^[A-Z]{3}-\\d+$',
          'x-pattern-hint': 'Three letters, a dash, digits.',
        },
        email: { type: 'string', format: 'email', examples: ['ada@example.com'] },
        channel: { enum: ['email', 'letter', 'sms'] },
        urgent: { type: 'boolean', description: 'No default: it must be said.' },
        notify: { type: 'boolean', default: true, title: 'Tell the customer' },
        copies: { type: 'integer', minimum: 1, maximum: 20, default: 2 },
        ratio: { type: ['number', 'null'], multipleOf: 0.25 },
        token: { type: 'string', writeOnly: true, 'x-advanced': true },
        currency: { enum: ['EUR', 'USD', 'GBP', 'CHF', 'JPY', 'SEK', 'NOK'], 'x-advanced': true },
        country: { enum: COUNTRIES.split(' '), 'x-advanced': true },
        days: {
          type: 'array',
          uniqueItems: true,
          items: { enum: ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] },
          'x-advanced': true,
        },
        fixed: { const: 'invoice', title: 'Kind of document' },
        reference: { type: 'string', readOnly: true, description: 'Given by the server.' },
      },
    },
  },
  {
    id: 'dates',
    title: 'Dates and files',
    value: { due: '2026-03-31', at: '2026-03-31T14:30:00Z' },
    schema: {
      type: 'object',
      required: ['due'],
      properties: {
        due: { type: 'string', format: 'date' },
        at: { type: 'string', format: 'date-time' },
        opens: { type: 'string', format: 'time' },
        receipt: { type: 'string', contentEncoding: 'base64', contentMediaType: 'image/*' },
      },
    },
  },
  {
    id: 'nested',
    title: 'Lists, objects, unions, conditions',
    value: {
      lines: [
        { sku: 'ABC-1', quantity: 2 },
        { sku: 'ABC-2', quantity: 1 },
      ],
      tags: ['first', 'second'],
      payout: { kind: 'bank', iban: 'DE02120300000000202051' },
      headers: { 'X-Trace': 'on' },
      point: [3, 4],
    },
    schema: {
      type: 'object',
      required: ['lines', 'payout'],
      properties: {
        lines: {
          type: 'array',
          minItems: 1,
          items: {
            title: 'Line',
            type: 'object',
            required: ['sku', 'quantity'],
            properties: { sku: { type: 'string', title: 'SKU' }, quantity: { type: 'integer', minimum: 1 } },
          },
        },
        tags: { type: 'array', items: { type: 'string' }, maxItems: 4 },
        payout: {
          oneOf: [
            {
              title: 'Card',
              type: 'object',
              required: ['kind', 'number'],
              properties: { kind: { const: 'card' }, number: { type: 'string' } },
            },
            {
              title: 'Bank transfer',
              type: 'object',
              required: ['kind', 'iban'],
              properties: {
                kind: { const: 'bank' },
                iban: { type: 'string', title: 'IBAN' },
                express: { type: 'boolean', default: false },
              },
              if: { properties: { express: { const: true } }, required: ['express'] },
              // biome-ignore lint/suspicious/noThenProperty: the keyword is called so
              then: { properties: { reason: { type: 'string', title: 'Why express' } }, required: ['reason'] },
            },
          ],
        },
        address: {
          type: 'object',
          description: 'Where to send the goods.',
          properties: { street: { type: 'string' }, city: { type: 'string' } },
        },
        headers: { type: 'object', additionalProperties: { type: 'string' } },
        point: {
          type: 'array',
          prefixItems: [
            { title: 'x', type: 'number' },
            { title: 'y', type: 'number' },
          ],
          items: false,
        },
        limit: { type: ['integer', 'string'], description: 'A number, or `none`.' },
        anything: {},
      },
    },
  },
]

const DAYS = Array.from({ length: 30 }, (_, index) => ({
  day: new Date(Date.UTC(2026, 0, index + 1)).toISOString().slice(0, 10),
  calls: Math.round(60 + 30 * Math.sin(index / 4) + index),
  failed: Math.round(6 + 4 * Math.cos(index / 3)),
}))

export interface OutputSample {
  id: string
  title: string
  result: unknown
  sections?: readonly OutputSection[]
}

export const OUTPUTS: readonly OutputSample[] = [
  {
    id: 'sections',
    title: 'By sections',
    sections: [
      { key: 'summary', label: 'Summary', type: 'summary' },
      { key: 'days', label: 'Calls a day', type: 'chart', config: { x: 'day', y: ['calls', 'failed'] } },
      { key: 'by_tool', label: 'By tool', type: 'chart' },
      { key: 'fit', label: 'Fit', type: 'radar' },
      { key: 'best', label: 'Best options', type: 'ranking' },
      { key: 'rows', label: 'Tickets', type: 'table' },
    ],
    result: {
      summary: {
        calls: 2714,
        failed: 181,
        cost: '12.40 EUR',
        note: 'Failures come from one upstream, which answered slowly on three days.',
      },
      days: DAYS,
      by_tool: { searchTickets: 1204, viewTicket: 866, sendMail: 402, refund: 242 },
      fit: [
        { axis: 'Price', ours: 4, theirs: 3 },
        { axis: 'Speed', ours: 5, theirs: 2 },
        { axis: 'Support', ours: 3, theirs: 4 },
        { axis: 'Reach', ours: 2, theirs: 5 },
        { axis: 'Care', ours: 5, theirs: 3 },
      ],
      best: [
        { name: 'Move to the new upstream', score: 8.7, effort: 'medium' },
        { name: 'Cache for an hour', score: 6.1, effort: 'small' },
        { name: 'Leave it', score: 1.4, effort: 'none' },
      ],
      rows: [
        { id: '4711', subject: 'Printer on floor 2', open: true, hours: 3.5, owner: { name: 'Ada' } },
        { id: '4712', subject: 'Badge does not open the gate', open: false, hours: 12, owner: { name: 'Grace' } },
        { id: '4713', subject: 'New screen', open: true, hours: null },
      ],
    },
  },
  {
    id: 'generic',
    title: 'By shape',
    result: {
      id: '4711',
      open: true,
      hours: 3.5,
      home: 'https://example.com/tickets/4711',
      tags: ['printer', 'floor 2'],
      owner: { name: 'Ada', team: 'Desk' },
      notes:
        '## What happened\n\nThe printer *stopped* after the **update**; see [the log](https://example.com/log).\n\n- paper: fine\n- network: `timeout`\n\n| step | result |\n|---|---|\n| restart | no change |\n| reset | works |',
    },
  },
  { id: 'number', title: 'A number', result: 1234567.5 },
  {
    id: 'hostile',
    title: 'Hostile text stays text',
    result: {
      name: '<img src=x onerror=alert(1)>',
      note: '# <script>alert(1)</script>\n\n[click](javascript:alert(1)) and [bank](https://evil.example/login) **<b>x</b>**',
      hidden: 'pay\u202eelgooG\u200b',
    },
  },
]
