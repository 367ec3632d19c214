// The map of the console. Each page is its own chunk, loaded when it is first opened.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
  type SearchSchemaInput,
} from '@tanstack/react-router'
import { FILTERS as CALL_FILTERS } from '../pages/calls/chosen'
import { Failed, Nothing, Pending } from './outcomes'
import { Shell } from './Shell'

/** Search parameters of a page: the texts it knows; what else is in the address is dropped. */
function texts<Name extends string>(...names: readonly Name[]) {
  return (search: { [name in Name]?: string } & SearchSchemaInput): { [name in Name]?: string } => {
    const known = names.map((name) => [name, search[name]] as const)
    return Object.fromEntries(
      known.filter(([, value]) => value !== undefined && value !== '').map(([name, value]) => [name, String(value)]),
    ) as { [name in Name]?: string }
  }
}

const root = createRootRoute({ errorComponent: Failed, notFoundComponent: Nothing })

// Before the sign-in
const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: texts('next', 'failed'),
  component: lazyRouteComponent(() => import('../pages/sign-in/SignInPage'), 'SignInPage'),
})
const invite = createRoute({
  getParentRoute: () => root,
  path: '/invite',
  component: lazyRouteComponent(() => import('../pages/sign-in/InvitePage'), 'InvitePage'),
})
const reset = createRoute({
  getParentRoute: () => root,
  path: '/reset',
  component: lazyRouteComponent(() => import('../pages/sign-in/ResetPage'), 'ResetPage'),
})

// Behind it, and in a frame of its own: a program sent the browser here.
const connect = createRoute({
  getParentRoute: () => root,
  path: '/oauth/authorize',
  component: lazyRouteComponent(() => import('../pages/connect/ConnectPage'), 'ConnectPage'),
})

// Behind it
const shell = createRoute({ getParentRoute: () => root, id: 'shell', component: Shell })
const home = createRoute({
  getParentRoute: () => shell,
  path: '/',
  component: lazyRouteComponent(() => import('../pages/home/HomePage'), 'HomePage'),
})
const tools = createRoute({
  getParentRoute: () => shell,
  path: '/tools',
  validateSearch: texts('q', 'category', 'risk', 'class', 'origin', 'state', 'kind', 'deprecated'),
  component: lazyRouteComponent(() => import('../pages/tools/ToolsPage'), 'ToolsPage'),
})
const tool = createRoute({
  getParentRoute: () => shell,
  path: '/tools/$name',
  validateSearch: texts('tab', 'version', 'from', 'to', 'as', 'example', 'again', 'call'),
  component: lazyRouteComponent(() => import('../pages/tool/ToolPage'), 'ToolPage'),
})
const approvals = createRoute({
  getParentRoute: () => shell,
  path: '/approvals',
  validateSearch: texts('state', 'tool', 'agent', 'id'),
  component: lazyRouteComponent(() => import('../pages/approvals/ApprovalsPage'), 'ApprovalsPage'),
})
const approval = createRoute({
  getParentRoute: () => shell,
  path: '/approvals/$id',
  component: lazyRouteComponent(() => import('../pages/approvals/ApprovalPage'), 'ApprovalPage'),
})
const calls = createRoute({
  getParentRoute: () => shell,
  path: '/calls',
  validateSearch: texts(...CALL_FILTERS, 'call'),
  component: lazyRouteComponent(() => import('../pages/calls/CallsPage'), 'CallsPage'),
})
const call = createRoute({
  getParentRoute: () => shell,
  path: '/calls/$id',
  component: lazyRouteComponent(() => import('../pages/calls/CallPage'), 'CallPage'),
})
const runs = createRoute({
  getParentRoute: () => shell,
  path: '/runs',
  validateSearch: texts('state', 'agent', 'kind'),
  component: lazyRouteComponent(() => import('../pages/runs/RunsPage'), 'RunsPage'),
})
const run = createRoute({
  getParentRoute: () => shell,
  path: '/runs/$id',
  component: lazyRouteComponent(() => import('../pages/runs/RunPage'), 'RunPage'),
})
const agents = createRoute({
  getParentRoute: () => shell,
  path: '/agents',
  validateSearch: texts('q'),
  component: lazyRouteComponent(() => import('../pages/agents/AgentsPage'), 'AgentsPage'),
})
const agent = createRoute({
  getParentRoute: () => shell,
  path: '/agents/$name',
  validateSearch: texts('tab'),
  component: lazyRouteComponent(() => import('../pages/agents/AgentPage'), 'AgentPage'),
})
const agentTools = createRoute({
  getParentRoute: () => shell,
  path: '/agents/$name/tools',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/agents/$name', params, replace: true })
  },
})
const workflows = createRoute({
  getParentRoute: () => shell,
  path: '/workflows',
  component: lazyRouteComponent(() => import('../pages/workflows/WorkflowsPage'), 'WorkflowsPage'),
})
const workflow = createRoute({
  getParentRoute: () => shell,
  path: '/workflows/$name',
  validateSearch: texts('tab', 'revision'),
  component: lazyRouteComponent(() => import('../pages/workflows/WorkflowPage'), 'WorkflowPage'),
})
const upstreams = createRoute({
  getParentRoute: () => shell,
  path: '/upstreams',
  component: lazyRouteComponent(() => import('../pages/upstreams/UpstreamsPage'), 'UpstreamsPage'),
})
const upstream = createRoute({
  getParentRoute: () => shell,
  path: '/upstreams/$name',
  component: lazyRouteComponent(() => import('../pages/upstreams/UpstreamPage'), 'UpstreamPage'),
})
// Where an authorisation server sends the browser back to.
const connected = createRoute({
  getParentRoute: () => shell,
  path: '/callback',
  component: lazyRouteComponent(() => import('../pages/upstreams/ConnectedPage'), 'ConnectedPage'),
})
const providers = createRoute({
  getParentRoute: () => shell,
  path: '/providers',
  component: lazyRouteComponent(() => import('../pages/providers/ProvidersPage'), 'ProvidersPage'),
})
const provider = createRoute({
  getParentRoute: () => shell,
  path: '/providers/$name',
  component: lazyRouteComponent(() => import('../pages/providers/ProviderPage'), 'ProviderPage'),
})
const skills = createRoute({
  getParentRoute: () => shell,
  path: '/skills',
  component: lazyRouteComponent(() => import('../pages/skills/SkillsPage'), 'SkillsPage'),
})
const skill = createRoute({
  getParentRoute: () => shell,
  path: '/skills/$name',
  component: lazyRouteComponent(() => import('../pages/skills/SkillPage'), 'SkillPage'),
})
const people = createRoute({
  getParentRoute: () => shell,
  path: '/people',
  validateSearch: texts('tab', 'q'),
  component: lazyRouteComponent(() => import('../pages/people/PeoplePage'), 'PeoplePage'),
})
const account = createRoute({
  getParentRoute: () => shell,
  path: '/account',
  component: lazyRouteComponent(() => import('../pages/account/AccountPage'), 'AccountPage'),
})
const fields = createRoute({
  getParentRoute: () => shell,
  path: '/admin/fields',
  component: lazyRouteComponent(() => import('../pages/fields/FieldsPage'), 'FieldsPage'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    invite,
    reset,
    connect,
    shell.addChildren([
      home,
      tools,
      tool,
      approvals,
      approval,
      calls,
      call,
      runs,
      run,
      agents,
      agent,
      agentTools,
      workflows,
      workflow,
      upstreams,
      upstream,
      connected,
      providers,
      provider,
      skills,
      skill,
      people,
      account,
      fields,
    ]),
  ]),
  defaultPreload: 'intent',
  defaultPendingComponent: Pending,
  defaultErrorComponent: Failed,
  defaultNotFoundComponent: Nothing,
  scrollRestoration: true,
  // Addresses stay as a person would write them: `?status=failed`, not JSON.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const texts = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
    const written = new URLSearchParams(texts.map(([name, value]) => [name, String(value)])).toString()
    return written === '' ? '' : `?${written}`
  },
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
