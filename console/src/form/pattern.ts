// Which patterns this browser may try. The server runs them in linear time; the browser backtracks, and a pattern that a
// hostile tool chose could stand still for hours on thirty characters. Such a pattern is left to the server.
const QUANTIFIER = /^(?:[*+]|\{\d+(?:,\d*)?\})/
const COUNT_MAX = 1_000

/** A repeated group with a repetition or a choice inside is what explodes. */
export function isTame(pattern: string): boolean {
  const groups: boolean[] = [false]
  let repeats = 0
  for (let index = 0; index < pattern.length; index += 1) {
    const character = pattern.charAt(index)
    const top = groups.length - 1
    if (character === '\\') index += 1
    else if (character === '[') index = classEnd(pattern, index)
    else if (character === '(') groups.push(false)
    else if (character === '|') groups[top] = true
    else if (character === ')' && top > 0) {
      const risky = groups.pop() ?? false
      const isRepeated = QUANTIFIER.test(pattern.slice(index + 1))
      if (risky && isRepeated) return false
      groups[groups.length - 1] = (groups.at(-1) ?? false) || risky
    } else if (QUANTIFIER.test(pattern.slice(index, index + 12))) {
      if ((pattern.slice(index).match(/^\{(\d+)(?:,(\d*))?\}/) ?? []).slice(1).some((n) => Number(n) > COUNT_MAX))
        return false
      groups[top] = true
      repeats += 1
    }
  }
  // Repetitions in a row are polynomial: a few of them are quick on what a person types.
  return repeats <= 6 && compiles(pattern)
}

function classEnd(pattern: string, from: number): number {
  for (let index = from + 1; index < pattern.length; index += 1) {
    if (pattern.charAt(index) === '\\') index += 1
    else if (pattern.charAt(index) === ']' && index > from + 1) return index
  }
  return pattern.length
}

function compiles(pattern: string): boolean {
  try {
    new RegExp(pattern, 'u')
    return true
  } catch {
    return false
  }
}
