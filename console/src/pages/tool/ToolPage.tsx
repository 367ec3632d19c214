import { Page } from '../../ui/Page'

export function ToolPage() {
  return <Page title="ToolPage">Being written</Page>
}
