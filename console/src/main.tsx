import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './api/queries'
import { router } from './app/routes'
import { Notices } from './ui/Notices'
import './ui/tokens.css'
import './ui/base.css'

// The one-time link leads to `/`; the sign-in page asks before it spends it.
if (window.location.hash.startsWith('#sign-in=')) {
  window.history.replaceState(null, '', `/sign-in${window.location.hash}`)
}

const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <Notices />
      </QueryClientProvider>
    </StrictMode>,
  )
}
