// Redeems the one-time link in the address, then shows who is signed in and what they have.
const part = (id) => document.getElementById(id)

async function api(method, path, body) {
  const headers = body === undefined ? {} : { 'content-type': 'application/json' }
  const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await response.text()
  const answer = text === '' ? {} : JSON.parse(text)
  if (!response.ok) throw new Error([answer.detail ?? response.status, answer.remedy].filter(Boolean).map(ended).join(' '))
  return answer
}

function say(text, trouble = false) {
  part('status').replaceChildren(...prose(text.split(/(?<=[.!?] )/).map(capital).join('')))
  part('status').classList.toggle('trouble', trouble)
}

function element(tag, className, text) {
  const made = document.createElement(tag)
  made.className = className
  made.textContent = text
  return made
}

// A problem's words begin small and end open, since elsewhere they stand within a line.
const capital = (sentence) => sentence.charAt(0).toUpperCase() + sentence.slice(1)
const ended = (words) => (/[.!?]$/.test(words) ? words : `${words}.`)

// Text with its `code`, as nodes: what others wrote never becomes markup.
function prose(text) {
  const parts = text.split(/`([^`]+)`/)
  return parts.map((words, index) => (index % 2 === 1 ? element('code', '', words) : document.createTextNode(words)))
}

const CLASS_WORDS = { none: 'stays inside', read_only: 'reads outside', write: 'changes things outside' }

function toolRow(tool) {
  const row = element('div', 'row', '')
  row.append(element('span', 'name', tool.title), element('code', 'quiet', `${tool.name}@${tool.version}`))
  const warm = tool.egress_class === 'write' ? 'badge warm' : 'badge'
  row.append(element('span', warm, CLASS_WORDS[tool.egress_class]))
  if (tool.requires_approval) row.append(element('span', 'badge warm', 'asks a person'))
  const description = document.createElement('p')
  description.append(...prose(tool.description))
  const item = document.createElement('li')
  item.append(row, description)
  return item
}

function moreRow() {
  const row = element('li', 'quiet', '')
  row.append(...prose('and more: `toolgate tool list`'))
  return row
}

function personRow(me) {
  const who = element('span', 'quiet', `${me.name} in ${me.tenant}`)
  who.dataset.testid = 'who'
  who.title = who.textContent
  const out = element('button', '', 'Sign out')
  out.type = 'button'
  out.addEventListener('click', signOut)
  return [who, out]
}

async function signOut() {
  try {
    await api('POST', '/api/v1/sign-out', {})
    say('You are signed out.')
    await show()
  } catch (error) {
    say(error.message, true)
  }
}

async function show() {
  const { me } = await api('GET', '/api/v1/session')
  part('signed-in').hidden = !me
  part('signed-out').hidden = Boolean(me)
  part('person').replaceChildren(...(me ? personRow(me) : []))
  if (!me) return
  const { items, next_cursor: more } = await api('GET', '/api/v1/tools?limit=100')
  part('tools').replaceChildren(...items.map(toolRow))
  if (items.length === 0) part('tools').append(element('li', 'quiet', 'No tools yet. Register one with: toolgate tool register --file TOOL.md --apply'))
  if (more) part('tools').append(moreRow())
}

const token = new URLSearchParams(location.hash.slice(1)).get('sign-in')
// The token leaves the address and the history before anything else happens.
if (token) history.replaceState(null, '', '/')
try {
  if (token) await api('POST', '/api/v1/sign-in', { token })
  say('')
} catch (error) {
  say(error.message, true)
}
await show().catch((error) => say(error.message, true))
