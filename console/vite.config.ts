import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` beside a running `toolgate serve`; the server checks the Host header, so the proxy speaks as itself.
const SERVER = process.env.TOOLGATE_URL ?? 'http://127.0.0.1:8787'
const proxied = { target: SERVER, changeOrigin: true }

export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    // The content security policy allows no inline script, no `data:` font.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { '/api': proxied, '/openapi.json': proxied, '/mark.svg': proxied, '/docs': proxied } },
  test: { environment: 'happy-dom', include: ['src/**/*.test.{ts,tsx}'] },
})
