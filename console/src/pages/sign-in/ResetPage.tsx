import { Page } from '../../ui/Page'

export function ResetPage() {
  return <Page title="ResetPage">Being written</Page>
}
