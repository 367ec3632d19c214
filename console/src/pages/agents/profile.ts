// A profile in words, one for each thing that it demands.
import type { Schemas } from '../../api/client'

export function profileFacts(profile: Schemas['Profile']): string[] {
  const { requires_approval, rate_limit, allow_tools, deny_tools, allowed_egress, hosts, constraints, guardrails } =
    profile
  const facts = [
    requires_approval === true && 'every call asks',
    requires_approval === false && 'asks only where it must',
    profile.hitl?.mode && `asks ${profile.hitl.mode.replaceAll('_', ' ')}`,
    profile.max_cost_per_call && `at most ${profile.max_cost_per_call} a call`,
    profile.max_cost_per_run && `at most ${profile.max_cost_per_run} a run`,
    profile.max_cost_per_day && `at most ${profile.max_cost_per_day} a day`,
    rate_limit && 'a rate limit',
    allow_tools && `only ${count(allow_tools.length, 'tool')}`,
    deny_tools && deny_tools.length > 0 && `not ${deny_tools.join(', ')}`,
    allowed_egress && `classes ${allowed_egress.join(', ')}`,
    hosts && `only ${count(hosts.length, 'host')}`,
    constraints && constraints.length > 0 && count(constraints.length, 'constraint'),
    guardrails && guardrails.length > 0 && `guardrails ${guardrails.join(', ')}`,
  ]
  const said = facts.filter((fact): fact is string => typeof fact === 'string')
  return said.length === 0 ? ['demands nothing'] : said
}

const count = (number: number, noun: string) => `${number} ${noun}${number === 1 ? '' : 's'}`
