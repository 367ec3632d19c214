// The keys of the approvals pages, as the list on `?` says them.
import { SUBMIT_KEYS } from '../../lib/submitKey'
import type { KeyWords } from '../../ui/ShortcutsHelp'

export const KEYS: KeyWords = [
  ['j', 'the next call'],
  ['k', 'the call before'],
  ['a', 'approve; for a critical call, after one more question'],
  ['r', 'reject, with a reason'],
  ['e', 'edit the arguments, then approve'],
  ['x', 'choose the call, for deciding on several'],
  [SUBMIT_KEYS, 'send what a dialog asks for'],
  ['Esc', 'choose nothing, close'],
  ['?', 'this list'],
]
