import { Page } from '../../ui/Page'

export function ApprovalsPage() {
  return <Page title="ApprovalsPage">Being written</Page>
}
