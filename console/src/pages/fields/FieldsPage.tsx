// Every kind of field and output on one page: a gallery, and the picture the visual tests take.
import { Page } from '../../ui/Page'

export function FieldsPage() {
  return <Page title="Fields">{null}</Page>
}
