// The receipt: where a call is in the log, and whether that is true, found out here and not by the server.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Download, FlaskConical, ShieldCheck } from 'lucide-react'
import { useEffect, useRef } from 'react'
import { queries } from '../../api/queries'
import { showGently } from '../../lib/gently'
import { type Evidence, type Verification, verify } from '../../lib/proof'
import { type Tampering, tampered } from '../../lib/proof-tamper'
import { Button } from '../../ui/Button'
import { CopyId } from '../../ui/CopyId'
import { Problem } from '../../ui/Problem'
import { Section } from '../../ui/Section'
import css from './Call.module.css'
import { Checks } from './Checks'
import { type Call, callQueries, isOpen } from './queries'

interface Found {
  evidence: Evidence
  verification: Verification
  tampering: Tampering | undefined
}

export function Receipt({ call }: { call: Call }) {
  const client = useQueryClient()
  const isDemonstration = useQuery(queries.session()).data?.demonstration === true
  const checking = useMutation({
    mutationFn: async (change: boolean): Promise<Found> => {
      const proof = await client.fetchQuery({ ...callQueries.proof(call.id), staleTime: 0 })
      const tampering = change ? tampered(proof.entry) : undefined
      const evidence: Evidence = { ...proof, ...(tampering ? { entry: tampering.entry } : {}) }
      return { evidence, tampering, verification: await verify(evidence, call) }
    },
  })
  const { receipt } = call
  const found = checking.data
  const checks = useRef<HTMLDivElement>(null)
  // It may stand below the fold.
  useEffect(() => {
    if (found) showGently(checks.current)
  }, [found])
  return (
    <Section title="Receipt">
      {receipt ? (
        <dl className={css.facts}>
          <div>
            <dt>Entry</dt>
            <dd>
              {receipt.index === null || receipt.index === undefined
                ? 'gets its number within a second'
                : receipt.index}
            </dd>
          </div>
          <div>
            <dt>Log</dt>
            <dd>
              <CopyId id={receipt.log} what="name of the log" />
            </dd>
          </div>
          <div className={css.across}>
            <dt>Digest</dt>
            <dd>
              <CopyId id={receipt.entry_digest} what="digest of the entry" />
            </dd>
          </div>
        </dl>
      ) : (
        <p className={css.quiet}>{isOpen(call.status) ? 'It is written when the call ends.' : 'There is none.'}</p>
      )}
      <div className={css.buttons}>
        <Button
          kind="primary"
          icon={<ShieldCheck aria-hidden="true" />}
          isPending={checking.isPending}
          onPress={() => checking.mutate(false)}
          disabledReason={receipt ? undefined : 'There is nothing to verify before the call has ended'}
        >
          Verify
        </Button>
        {isDemonstration && receipt && (
          <Button icon={<FlaskConical aria-hidden="true" />} onPress={() => checking.mutate(true)}>
            Tamper
          </Button>
        )}
        {found && !found.tampering && <Save evidence={found.evidence} id={call.id} />}
      </div>
      {isDemonstration && receipt && (
        <p className={css.quiet}>
          A demonstration server: Tamper changes one byte of the entry in this browser, as if somebody had changed the
          database, and verifies that.
        </p>
      )}
      {checking.isError && <Problem error={checking.error} retry={() => checking.mutate(false)} />}
      <div ref={checks} className={css.found} role="status">
        {found && <Checks {...found} />}
      </div>
    </Section>
  )
}

/** The same file as `toolgate audit prove --to` writes, which `toolgate audit verify` takes. */
function Save({ evidence: { receipt, entry, proof }, id }: { evidence: Evidence; id: string }) {
  const save = () => {
    const file = new Blob([`${JSON.stringify({ receipt, entry, proof })}\n`], { type: 'application/json' })
    const url = URL.createObjectURL(file)
    const link = document.createElement('a')
    link.href = url
    link.download = `proof-${id}.json`
    link.click()
    URL.revokeObjectURL(url)
  }
  return (
    <Button kind="quiet" icon={<Download aria-hidden="true" />} onPress={save}>
      Save the proof
    </Button>
  )
}
