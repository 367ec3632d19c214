import { Page } from '../../ui/Page'

export function InvitePage() {
  return <Page title="InvitePage">Being written</Page>
}
