import { Page } from '../../ui/Page'

export function RunsPage() {
  return <Page title="RunsPage">Being written</Page>
}
