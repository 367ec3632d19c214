// `productTest`: a test with a server and a browser of its own, both gone when it ends.
import { test } from 'node:test'
import { openBrowser } from './browser.mjs'
import { startServer } from './server.mjs'

const TEST_MS_MAX = 120_000

export function productTest(name, body) {
  test(name, { timeout: TEST_MS_MAX }, async () => {
    const server = await startServer()
    try {
      const browser = await openBrowser()
      try {
        await body({ server, browser })
      } finally {
        await browser.close()
      }
    } finally {
      await server.stop()
    }
  })
}
