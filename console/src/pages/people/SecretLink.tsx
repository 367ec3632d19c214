// A link that is shown once: whoever has it is let in, so it is handed over, never stored.
import { CopyId } from '../../ui/CopyId'
import css from './people.module.css'

export function SecretLink({ words, url }: { words: string; url: string }) {
  return (
    <div className={css.link} role="status">
      <p>{words}</p>
      <CopyId id={url} what="the link" whole />
    </div>
  )
}
