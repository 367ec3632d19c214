import { Page } from '../../ui/Page'

export function ToolsPage() {
  return <Page title="ToolsPage">Being written</Page>
}
