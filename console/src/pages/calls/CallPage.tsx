import { Page } from '../../ui/Page'

export function CallPage() {
  return <Page title="CallPage">Being written</Page>
}
