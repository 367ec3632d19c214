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
  workflows: () => ({ to: '/workflows' }) as const,
  workflow: (name: string, revision?: number) =>
    ({
      to: '/workflows/$name',
      params: { name },
      search: revision === undefined ? {} : { revision: `${revision}` },
    }) as const,
  upstreams: () => ({ to: '/upstreams' }) as const,
  upstream: (name: string) => ({ to: '/upstreams/$name', params: { name } }) as const,
  providers: () => ({ to: '/providers' }) as const,
  provider: (name: string) => ({ to: '/providers/$name', params: { name } }) as const,
  skills: () => ({ to: '/skills' }) as const,
  skill: (name: string) => ({ to: '/skills/$name', params: { name } }) as const,
  people: () => ({ to: '/people' }) as const,
  account: () => ({ to: '/account' }) as const,
} as const
