// A recorded call as a node of a workflow: the same tool at the same version, with the same input.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Button } from '../../ui/Button'
import { CopyLine } from '../../ui/CopyLine'
import { Dialog } from '../../ui/Dialog'
import { Select } from '../../ui/Field'
import { Problem } from '../../ui/Problem'
import { SkeletonRows } from '../../ui/Skeleton'
import { materialize, workflowsQuery } from './queries'

export function NodeDialog({ call, onClose }: { call: string; onClose: () => void }) {
  const [workflow, setWorkflow] = useState('')
  const workflows = useQuery(workflowsQuery()).data?.items ?? []
  const node = useQuery({
    queryKey: ['workflows', 'node', call, workflow],
    queryFn: () => materialize({ call, workflow }),
    retry: false,
  })
  return (
    <Dialog
      title="This call as a node"
      isOpen
      onClose={onClose}
      actions={
        <Button kind="primary" onPress={onClose}>
          Done
        </Button>
      }
    >
      <p>
        Put it among the <code>nodes</code> of a workflow’s file, join it with edges, and save the file. Secrets are
        named, never written out.
      </p>
      {workflows.length > 0 && (
        <Select
          label="For the workflow"
          all="a new one"
          options={workflows.map(({ name }) => ({ id: name, label: name }))}
          value={workflow}
          onChange={setWorkflow}
        />
      )}
      {node.isPending ? (
        <SkeletonRows rows={3} />
      ) : node.isError ? (
        <Problem error={node.error} retry={() => void node.refetch()} />
      ) : (
        <CopyLine text={JSON.stringify(node.data, null, 2)} what="the node" />
      )}
    </Dialog>
  )
}
