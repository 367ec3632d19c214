// The keys of a page, on `?`, and the switch for those who want no single keys.
import { useShortcutsOn } from '../lib/shortcuts'
import { Button } from './Button'
import { Checkbox } from './Checkbox'
import { Dialog } from './Dialog'
import css from './ShortcutsHelp.module.css'

export type KeyWords = readonly (readonly [keys: string, words: string])[]

export function ShortcutsHelp({ keys, onClose }: { keys: KeyWords; onClose: () => void }) {
  const [on, setOn] = useShortcutsOn()
  return (
    <Dialog
      title="Keys"
      isOpen
      onClose={onClose}
      actions={
        <Button kind="primary" onPress={onClose}>
          Close
        </Button>
      }
    >
      <dl className={css.keys}>
        {keys.map(([key, words]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
      <Checkbox isSelected={on} onChange={setOn}>
        Single keys act on this page
      </Checkbox>
    </Dialog>
  )
}
