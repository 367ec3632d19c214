// Puts a brotli copy beside every text file of dist/, which the server sends to browsers that take it, and says how
// much script the first page loads: more than FIRST_LOAD_KIB_MAX is an error.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const DIST = new URL('../dist/', import.meta.url).pathname
const FIRST_LOAD_KIB_MAX = 300
const TEXT = /\.(html|js|css|svg|json)$/

for (const entry of readdirSync(DIST, { recursive: true })) {
  if (!TEXT.test(entry)) continue
  const bytes = readFileSync(join(DIST, entry))
  const packed = brotliCompressSync(bytes, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
  })
  if (packed.length < bytes.length) writeFileSync(join(DIST, `${entry}.br`), packed)
}

const page = readFileSync(join(DIST, 'index.html'), 'utf8')
const scripts = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map(([, path]) => path)
const kib = scripts.reduce((sum, path) => sum + gzipSync(readFileSync(join(DIST, path)), { level: 9 }).length, 0) / 1024
process.stdout.write(`first load: ${kib.toFixed(1)} KiB of script, gzip (at most ${FIRST_LOAD_KIB_MAX})\n`)
if (kib > FIRST_LOAD_KIB_MAX) process.exit(1)
