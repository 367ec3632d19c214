// Model providers, and the keys they are given.
import { queryOptions, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, type Schemas, taken } from '../../api/client'
import { withStepUp } from '../../app/StepUp'
import { may, useMe } from '../../app/session'

export type Provider = Schemas['ProviderView']
export type Shown = Schemas['ShownProvider']

/** As many as anybody has: the list is one page. */
const LISTED_MAX = 500

const named = (provider: string) => ({ params: { path: { provider } } })

export const providersQuery = () =>
  queryOptions({
    queryKey: ['providers', 'list'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/providers', { params: { query: { limit: LISTED_MAX } }, signal })),
  })

export const providerQuery = (provider: string) =>
  queryOptions({
    queryKey: ['providers', 'one', provider],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/providers/{provider}', { ...named(provider), signal })),
    placeholderData: () => undefined,
  })

export const secretsQuery = () =>
  queryOptions({
    queryKey: ['secrets'],
    queryFn: ({ signal }) => taken(api.GET('/api/v1/secrets', { params: { query: { limit: LISTED_MAX } }, signal })),
  })

/** Whether a script, and no model, answers for `PROVIDER/MODEL`. A tenant's own provider stands in front of an offered one. */
export function useScriptedModels(): (model: string) => boolean {
  const me = useMe()
  const providers = useQuery({ ...providersQuery(), enabled: may(me, 'agents.read') }).data?.items ?? []
  return (model) => {
    const those = providers.filter(({ name }) => name === model.split('/')[0])
    return (those.find(({ offered }) => !offered) ?? those[0])?.scripted ?? false
  }
}

export function useScripted(model: string): boolean {
  return useScriptedModels()(model)
}

export const saveProvider = (body: Schemas['Provider']) =>
  taken(api.PUT('/api/v1/providers/{provider}', { ...named(body.name), body }))

export const removeProvider = ({ provider, force }: { provider: string; force: boolean }) =>
  taken(api.DELETE('/api/v1/providers/{provider}', { params: { path: { provider }, query: { force } } }))

export const testProvider = ({ provider, model, prompt }: { provider: string; model: string; prompt: string }) =>
  taken(
    api.POST('/api/v1/providers/{provider}/test', {
      ...named(provider),
      body: { model, ...(prompt === '' ? {} : { prompt }) },
    }),
  )

/** The value goes in and never comes out; only this provider may have it, and it goes to no other host. */
export const setKey = (key: { scope: 'user' | 'org'; secret: string; value: string; provider: string; host: string }) =>
  withStepUp(() =>
    taken(
      api.PUT('/api/v1/secrets/{scope}/{name}', {
        params: { path: { scope: key.scope, name: key.secret } },
        body: { value: key.value, providers: [key.provider], hosts: [key.host] },
      }),
    ),
  )

export function useProviderChange<Input, Output>(send: (input: Input) => Promise<Output>) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: send,
    onSuccess: () => {
      for (const kind of ['providers', 'secrets']) void client.invalidateQueries({ queryKey: [kind] })
    },
  })
}
