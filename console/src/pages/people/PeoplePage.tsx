import { Page } from '../../ui/Page'

export function PeoplePage() {
  return <Page title="PeoplePage">Being written</Page>
}
