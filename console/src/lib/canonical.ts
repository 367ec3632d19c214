// Canonical JSON (RFC 8785): one text for one value, so that digests of it agree with the server's.
/** The one way to write a value: members by name, no spaces, numbers as ECMAScript writes them. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined)
    // UTF-16 code units, which is how RFC 8785 orders names and JavaScript compares texts.
    members.sort(([one], [other]) => (one < other ? -1 : 1))
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`
  }
  return JSON.stringify(value) ?? 'null'
}
