// Every address of the console, in one place: `to.call(id)` in a link, never a text.
export const to = {
  home: () => ({ to: '/' }) as const,
  signIn: (next?: string) => ({ to: '/sign-in', search: next ? { next } : {} }) as const,
  tools: () => ({ to: '/tools' }) as const,
  tool: (name: string) => ({ to: '/tools/$name', params: { name } }) as const,
  approvals: () => ({ to: '/approvals' }) as const,
  approval: (id: string) => ({ to: '/approvals/$id', params: { id } }) as const,
  calls: (search: { tool?: string; agent?: string; status?: string; since?: string } = {}) =>
    ({ to: '/calls', search }) as const,
  call: (id: string) => ({ to: '/calls/$id', params: { id } }) as const,
  runs: () => ({ to: '/runs' }) as const,
  run: (id: string) => ({ to: '/runs/$id', params: { id } }) as const,
  agents: () => ({ to: '/agents' }) as const,
  agent: (name: string) => ({ to: '/agents/$name', params: { name } }) as const,
  people: () => ({ to: '/people' }) as const,
  account: () => ({ to: '/account' }) as const,
} as const
