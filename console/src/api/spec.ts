// The schema of a thing that the API takes, from the API's own description: forms for it need no second model.
import { queryOptions } from '@tanstack/react-query'
import type { JsonSchema } from '../form/json'

interface Description {
  components: { schemas: Record<string, JsonSchema> }
}

const COMPONENTS = '#/components/schemas/'

export function schemaOf({ components }: Description, name: string): JsonSchema {
  const own = JSON.parse(JSON.stringify(components.schemas).replaceAll(COMPONENTS, '#/$defs/')) as Record<
    string,
    JsonSchema
  >
  return { ...(own[name] as object), $defs: own } as JsonSchema
}

export const specQuery = (name: string) =>
  queryOptions({
    queryKey: ['description', name],
    queryFn: async ({ signal }) => {
      const response = await fetch('/openapi.json', { signal })
      return schemaOf((await response.json()) as Description, name)
    },
    staleTime: Number.POSITIVE_INFINITY,
  })
