// Starts a server and writes down what passes on its standard streams, one line each, into a file: `node tee.mjs FILE
// COMMAND…`. What passes is not touched.
import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const [, , file, command, ...args] = process.argv
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
function pass(by, from, to) {
  const note = (line) => appendFileSync(file, `${JSON.stringify({ by, line })}\n`)
  createInterface({ input: from }).on('line', (line) => {
    note(line)
    to.write(`${line}\n`)
  })
}
pass('client', process.stdin, child.stdin)
pass('server', child.stdout, process.stdout)
process.stdin.on('end', () => child.stdin.end())
child.stdin.on('error', () => {})
child.on('exit', (code) => process.exit(code ?? 1))
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal))
