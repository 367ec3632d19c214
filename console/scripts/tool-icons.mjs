// Writes the icons that the server itself shows of tools: those that the page knows (src/ui/ToolIcon.tsx) and those of the
// tools that ship. `node scripts/tool-icons.mjs`, when one of these lists or the version of lucide changes.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const LUCIDE = at('../node_modules/lucide-react')
const OUT = at('../../crates/mcp/src/serve/icons.txt')
const TOOLS = at('../../crates/toolbox/tools')

const kebab = (name) => name.replace(/(?<=.)([A-Z]|\d+)/g, '-$1').toLowerCase()
const source = readFileSync(at('../src/ui/ToolIcon.tsx'), 'utf8')
const [, table] = /const ICONS[^{]*= \{(.*?)\n\}/s.exec(source)
const names = new Map(
  [...table.matchAll(/^ {2}'?([a-z0-9-]+)'?: (\w+),$/gm)].map(([, name, icon]) => [name, kebab(icon)]),
)
for (const tool of readdirSync(TOOLS)) {
  const [, name] = /^icon: (\S+)$/m.exec(readFileSync(`${TOOLS}/${tool}/TOOL.md`, 'utf8')) ?? []
  if (name && !names.has(name)) names.set(name, name)
}

const { version } = JSON.parse(readFileSync(`${LUCIDE}/package.json`, 'utf8'))
const notice = readFileSync(`${LUCIDE}/LICENSE`, 'utf8').trimEnd()
const head = `Icons of Lucide ${version} (https://lucide.dev), by name: what is inside of each picture.\n\n${notice}`
const lines = head.split('\n').map((line) => `# ${line}`.trimEnd())
for (const [name, icon] of [...names].sort(([left], [right]) => (left < right ? -1 : 1))) {
  // One that was renamed leads on.
  const text = readFileSync(`${LUCIDE}/dist/esm/icons/${icon}.mjs`, 'utf8')
  const [, renamed = icon] = /from '\.\/([a-z0-9-]+)\.mjs'/.exec(text) ?? []
  const { __iconData } = await import(`${LUCIDE}/dist/esm/icons/${renamed}.mjs`)
  const node = ([tag, { key, ...attributes }]) =>
    `<${tag} ${Object.entries(attributes)
      .map(([attribute, value]) => `${attribute}="${value}"`)
      .join(' ')}/>`
  lines.push(`${name} ${__iconData.node.map(node).join('')}`)
}
writeFileSync(OUT, `${lines.join('\n')}\n`)
