import { Button } from '../../ui/Button'
import { Checkbox } from '../../ui/Checkbox'
import { Dialog } from '../../ui/Dialog'
import css from './ShortcutsHelp.module.css'
import { useShortcutsOn } from './shortcuts'

const KEYS: readonly (readonly [keys: string, words: string])[] = [
  ['j', 'the next call'],
  ['k', 'the call before'],
  ['a', 'approve; for a critical call, after one more question'],
  ['r', 'reject, with a reason'],
  ['e', 'edit the arguments, then approve'],
  ['x', 'choose the call, for deciding on several'],
  ['Esc', 'choose nothing, close'],
  ['?', 'this list'],
]

export function ShortcutsHelp({ onClose }: { onClose: () => void }) {
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
        {KEYS.map(([key, words]) => (
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
