// The characters that do not show themselves: the server's list (crates/contracts/src/unseen.rs), which a test there
// compares with this one.

/** Controls, what joins, separates, or turns the direction, fillers, selectors, tags, and what no font has. */
export const UNSEEN = [
  [0x0, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x34f, 0x34f],
  [0x61c, 0x61c],
  [0x115f, 0x1160],
  [0x17b4, 0x17b5],
  [0x180b, 0x180f],
  [0x200b, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0x2800, 0x2800],
  [0x3164, 0x3164],
  [0xe000, 0xf8ff],
  [0xfdd0, 0xfdef],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xffa0, 0xffa0],
  [0xfff0, 0xfffc],
  [0xfffe, 0xffff],
  [0x13430, 0x1343f],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0x1fffe, 0x1ffff],
  [0xe0000, 0xe0fff],
  [0xf0000, 0xfffff],
  [0x100000, 0x10ffff],
] as const

/** Spaces that look like the plain one and are not. */
export const BLANK = [
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
] as const

type Ranges = readonly (readonly [number, number])[]

/** The ranges as a class of a regular expression, for the flag `u`. */
export function classOf(...lists: readonly Ranges[]): string {
  const written = (code: number) => `\\u{${code.toString(16)}}`
  const ranges = lists.flat().map(([first, last]) => `${written(first)}-${written(last)}`)
  return `[${ranges.join('')}]`
}
