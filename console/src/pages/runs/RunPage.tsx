import { Page } from '../../ui/Page'

export function RunPage() {
  return <Page title="RunPage">Being written</Page>
}
