// The reference: /openapi.json as a page. What the document says is shown as text and never becomes markup.
const part = (id) => document.getElementById(id)
const METHODS = ['get', 'post', 'put', 'patch', 'delete']
// Schemas below this depth open by hand.
const OPEN_DEPTH = 1

function element(tag, className = '', ...children) {
  const made = document.createElement(tag)
  if (className) made.className = className
  made.append(...children)
  return made
}

// Text with its `code`.
function prose(text) {
  return text.split(/`([^`]+)`/).map((words, index) => (index % 2 === 1 ? element('code', '', words) : words))
}

let api

const resolved = (value) => (value?.$ref ? value.$ref.slice(2).split('/').reduce((at, key) => at?.[key], api) : value)
const nameOf = (reference) => reference.split('/').pop()

// One word or two for a schema.
function kindOf(schema) {
  if (schema === undefined || schema === true) return 'anything'
  if (schema.$ref) return nameOf(schema.$ref)
  const several = schema.oneOf ?? schema.anyOf
  if (several) return [...new Set(several.filter((one) => one.type !== 'null').map(kindOf))].join(' or ')
  if (schema.allOf) return schema.allOf.map(kindOf).join(' and ')
  if (schema.enum || schema.const !== undefined) return 'one of'
  const types = [schema.type ?? 'anything'].flat().filter((type) => type !== 'null')
  if (types.includes('array')) return `list of ${kindOf(schema.items)}`
  if (types.includes('object') && schema.additionalProperties && !schema.properties) return `map of ${kindOf(schema.additionalProperties)}`
  return [types.join(' or '), schema.format && !/^u?int|^double$/.test(schema.format) ? `(${schema.format})` : ''].filter(Boolean).join(' ')
}

function limitsOf(schema) {
  const words = []
  const say = (name, text) => schema[name] !== undefined && words.push(text(schema[name]))
  if (schema.enum) words.push(schema.enum.filter((word) => word !== null).map((word) => JSON.stringify(word)).join(', '))
  say('const', (value) => JSON.stringify(value))
  say('default', (value) => `default ${JSON.stringify(value)}`)
  say('maxLength', (length) => `at most ${length} characters`)
  say('pattern', (pattern) => `matches ${pattern}`)
  return words.join(' · ')
}

// The schema that has members, under references, lists and alternatives.
function inner(schema) {
  const found = resolved(schema)
  if (!found || found === true) return undefined
  if (found.properties || found.oneOf || found.anyOf || found.allOf) return found
  if (found.items) return inner(found.items)
  if (typeof found.additionalProperties === 'object') return inner(found.additionalProperties)
  return undefined
}

function fieldRow(name, schema, required, path) {
  const row = element('li')
  const shown = resolved(schema) ?? {}
  const limits = limitsOf(schema.$ref ? shown : schema)
  const head = element('div', 'head', element('code', 'name', name), element('span', 'kind', [kindOf(schema), limits].filter(Boolean).join(': ')))
  if (required) head.append(element('span', 'must', 'required'))
  row.append(head)
  const about = schema.description ?? shown.description
  if (about) row.append(element('p', 'about', ...prose(about)))
  row.append(...below(schema, path))
  return row
}

// The members of a schema, or nothing to add. A schema within itself is named and not opened again.
function below(schema, path) {
  const found = inner(schema)
  if (!found || path.includes(found)) return []
  const rows = members(found, [...path, found])
  if (!rows) return []
  if (path.length <= OPEN_DEPTH) return [rows]
  const more = element('details', 'more', element('summary', '', 'members'))
  // Made when it is looked at: the document is large.
  more.addEventListener('toggle', () => more.children.length === 1 && more.append(rows), { once: true })
  return [more]
}

function members(schema, path) {
  const alternatives = (schema.oneOf ?? schema.anyOf ?? []).filter((one) => resolved(one)?.type !== 'null')
  const rows = []
  const all = [schema, ...(schema.allOf ?? []).map(resolved)]
  for (const one of all) {
    for (const [name, member] of Object.entries(one?.properties ?? {})) {
      rows.push(fieldRow(name, member, one.required?.includes(name), path))
    }
  }
  if (alternatives.length === 1) rows.push(...[members(resolved(alternatives[0]), path)].filter(Boolean).flatMap((list) => [...list.children]))
  if (alternatives.length > 1) {
    for (const one of alternatives) {
      const kind = resolved(one)?.properties?.type?.enum?.[0] ?? resolved(one)?.title ?? kindOf(one)
      rows.push(fieldRow(`either ${kind}`, one, false, path))
    }
  }
  return rows.length > 0 ? element('ul', 'fields', ...rows) : undefined
}

function schemaView(schema) {
  const list = below(schema, [])
  const limits = limitsOf(resolved(schema) ?? {})
  const head = element('p', 'kind', [kindOf(schema), limits].filter(Boolean).join(': '))
  return [head, ...list]
}

// A value that a schema takes, of its required members.
function sample(schema, path = []) {
  const found = resolved(schema)
  if (!found || found === true || path.includes(found)) return {}
  const within = [...path, found]
  if (found.default !== undefined && found.default !== null) return found.default
  if (found.const !== undefined) return found.const
  if (found.enum) return found.enum[0]
  if (found.oneOf ?? found.anyOf) return sample((found.oneOf ?? found.anyOf)[0], within)
  const type = [found.type].flat()[0]
  if (found.properties || found.allOf) {
    const parts = [found, ...(found.allOf ?? []).map(resolved)]
    const wanted = parts.flatMap((one) => (one?.required ?? []).map((name) => [name, one.properties?.[name]]))
    return Object.fromEntries(wanted.map(([name, member]) => [name, sample(member ?? {}, within)]))
  }
  if (type === 'array') return []
  if (type === 'integer' || type === 'number') return found.minimum ?? 1
  if (type === 'boolean') return true
  if (type === 'string') return found.format === 'uuid' ? '00000000-0000-0000-0000-000000000000' : '…'
  return {}
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`

function curl(method, path, operation) {
  const address = location.origin + path.replace(/\{([^}]+)\}/g, (_, name) => name.toUpperCase())
  const query = parametersOf(operation).filter((one) => one.in === 'query' && one.required)
  const asked = query.map((one) => `${one.name}=${encodeURIComponent(String(sample(one.schema)))}`).join('&')
  const lines = [`curl ${method === 'get' ? '' : `-X ${method.toUpperCase()} `}${quoted(asked ? `${address}?${asked}` : address)}`]
  if (needsCaller(operation)) lines.push('-H "Authorization: Bearer $TOOLGATE_KEY"')
  const body = bodyOf(operation)
  if (body) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(sample(body), null, 2))}`)
  return lines.join(' \\\n  ')
}

const parametersOf = (operation) => (operation.parameters ?? []).map(resolved)
const bodyOf = (operation) => resolved(operation.requestBody)?.content?.['application/json']?.schema
const needsCaller = (operation) => (operation.security ?? api.security).some((one) => Object.keys(one).length > 0)
const isOpen = (operation) => (operation.security ?? api.security).every((one) => Object.keys(one).length === 0)

function example(text) {
  const copy = element('button', '', 'Copy')
  copy.type = 'button'
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text)
      copy.textContent = 'Copied'
    } catch {
      copy.textContent = 'Select and copy'
    }
    setTimeout(() => { copy.textContent = 'Copy' }, 1500)
  })
  const code = element('pre', '', element('code', '', text))
  code.tabIndex = 0
  return element('div', 'example', code, copy)
}

function answerView(status, response) {
  const { description, content = {} } = resolved(response)
  const refused = status === 'default' || status >= 400
  const shown = status === 'default' ? 'refused' : status
  const head = element('div', 'head', element('span', refused ? 'status refused' : 'status', shown), element('span', 'quiet', description))
  const view = element('div', 'answer', head)
  for (const [type, { schema }] of Object.entries(content)) {
    if (type !== 'application/json') head.append(element('code', 'kind', type))
    if (!schema || Object.keys(schema).length === 0) continue
    // Every refusal looks alike, so it is opened by who wants to see it.
    view.append(...(refused ? [element('details', 'more', element('summary', '', kindOf(schema)), ...below(schema, []))] : schemaView(schema)))
  }
  return view
}

function detail(method, path, operation) {
  const view = element('div', 'detail')
  if (isOpen(operation)) view.append(element('span', 'open-door', 'needs no key'))
  if (operation.description && operation.description !== operation.summary) {
    view.append(...operation.description.split('\n\n').map((text) => element('p', '', ...prose(text))))
  }
  const parameters = parametersOf(operation)
  if (parameters.length > 0) {
    const rows = parameters.map((one) => {
      const row = fieldRow(one.name, { ...one.schema, description: one.description ?? one.schema?.description }, one.required, [])
      row.querySelector('.kind').prepend(`${one.in} · `)
      return row
    })
    view.append(element('h3', '', 'Parameters'), element('ul', 'fields', ...rows))
  }
  const body = bodyOf(operation)
  if (body) view.append(element('h3', '', 'Body'), ...schemaView(body))
  view.append(element('h3', '', 'Answers'))
  for (const [status, response] of Object.entries(operation.responses)) view.append(answerView(status, response))
  view.append(element('h3', '', 'Example'), example(curl(method, path, operation)))
  return view
}

function pathView(path) {
  const pieces = path.split(/(\{[^}]+\})/).filter(Boolean)
  return element('code', 'path', ...pieces.map((piece) => (piece.startsWith('{') ? element('span', 'slot', piece) : piece)))
}

function operationView({ method, path, operation }) {
  const view = element('details', 'operation')
  view.id = operation.operationId
  const verb = element('span', `method ${method}`, method.toUpperCase())
  view.append(element('summary', '', verb, pathView(path), element('span', 'summary', ...prose(operation.summary ?? ''))))
  view.addEventListener('toggle', () => {
    if (view.open && view.children.length === 1) view.append(detail(method, path, operation))
    if (view.open) history.replaceState(null, '', `#${view.id}`)
  })
  return view
}

const all = []

// `server-keys` becomes "Server keys".
const titled = (tag) => tag[0].toUpperCase() + tag.slice(1).replaceAll('-', ' ')

function build() {
  const byTag = new Map(api.tags.map(({ name }) => [name, []]))
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((name) => item[name])) {
      const operation = item[method]
      byTag.get(operation.tags[0])?.push({ method, path, operation })
    }
  }
  for (const { name, description } of api.tags) {
    const title = element('h2', '', titled(name))
    const group = element('section', 'group', title, element('p', '', description ?? ''))
    group.setAttribute('aria-label', titled(name))
    const listTitle = element('h2', '', titled(name))
    part('contents').append(listTitle)
    const entry = { group, listTitle, rows: [] }
    for (const one of byTag.get(name)) {
      const view = operationView(one)
      const verb = element('span', `verb ${one.method}`, one.method)
      const link = element('a', '', verb, one.path.replace(/^\/api\/v\d+/, ''))
      link.href = `#${view.id}`
      link.title = one.operation.summary ?? ''
      link.addEventListener('click', () => open(view.id))
      const words = [one.method, one.path, one.operation.operationId, one.operation.summary, one.operation.description].join(' ').toLowerCase()
      entry.rows.push({ view, link, words })
      group.append(view)
      part('contents').append(link)
    }
    all.push(entry)
    part('operations').append(group)
  }
}

function open(id) {
  const view = id && document.getElementById(id)
  if (!view || !view.classList.contains('operation')) return
  view.open = true
  view.scrollIntoView()
  for (const link of part('contents').querySelectorAll('a')) {
    if (link.hash === `#${id}`) link.setAttribute('aria-current', 'true')
    else link.removeAttribute('aria-current')
  }
}

function search() {
  const wanted = part('search').value.toLowerCase().split(/\s+/).filter(Boolean)
  let found = 0
  for (const { group, listTitle, rows } of all) {
    let here = 0
    for (const { view, link, words } of rows) {
      const fits = wanted.every((word) => words.includes(word))
      view.hidden = link.hidden = !fits
      here += fits
    }
    group.hidden = listTitle.hidden = here === 0
    found += here
  }
  part('intro').hidden = wanted.length > 0
  const counted = found === 1 ? '1 operation.' : `${found} operations.`
  part('status').textContent = wanted.length === 0 ? '' : found === 0 ? 'Nothing fits. Try a word of the path, such as tools.' : counted
}

function intro() {
  part('version').textContent = `API reference ${api.info.version}`
  part('about').append(...prose(api.info.description ?? ''))
  const schemes = { key: 'With a key', session: 'In a browser' }
  for (const [name, scheme] of Object.entries(api.components.securitySchemes)) {
    part('callers').append(element('dt', '', schemes[name] ?? name), element('dd', '', ...prose(scheme.description ?? '')))
  }
}

try {
  const response = await fetch('/openapi.json')
  if (!response.ok) throw new Error(`the server answers ${response.status}`)
  api = await response.json()
  intro()
  build()
  part('search').addEventListener('input', search)
  window.addEventListener('hashchange', () => open(decodeURIComponent(location.hash.slice(1))))
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.target.closest('input, textarea')) return
    event.preventDefault()
    part('search').focus()
  })
  // Shown when everything on it works.
  part('status').textContent = ''
  part('intro').hidden = false
  open(decodeURIComponent(location.hash.slice(1)))
} catch (error) {
  part('status').textContent = `The description could not be loaded: ${error.message}.`
  part('status').classList.add('trouble')
}
