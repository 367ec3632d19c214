import { Page } from '../../ui/Page'

export function CallsPage() {
  return <Page title="CallsPage">Being written</Page>
}
