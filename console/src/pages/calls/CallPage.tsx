// A call on a page of its own: what links and mails lead to.
import { useParams } from '@tanstack/react-router'
import { CallView } from './CallView'

export function CallPage() {
  const { id } = useParams({ from: '/shell/calls/$id' })
  return <CallView key={id} id={id} frame="page" />
}
