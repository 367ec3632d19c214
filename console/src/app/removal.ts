// Takes a thing away and leaves its page. It is asked for no more, not even once while the page is still there: it is gone.
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { notify } from '../ui/Notices'

export function useRemoval<Input>(
  /** The first word of its queries, whose second is `one` for the thing itself; then what else changes with it. */
  [kind, ...others]: readonly [string, ...string[]],
  remove: (input: Input) => Promise<unknown>,
  { said, leave }: { said: string; leave: () => Promise<void> },
) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: remove,
    onSuccess: async () => {
      notify(said)
      await leave()
      client.removeQueries({ queryKey: [kind, 'one'], type: 'inactive' })
      for (const stale of [kind, ...others]) void client.invalidateQueries({ queryKey: [stale] })
    },
  })
}
