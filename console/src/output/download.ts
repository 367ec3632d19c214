// Gives the person a file that was made on the page.
export function saved(name: string, type: string, content: BlobPart): void {
  const address = URL.createObjectURL(new Blob([content], { type }))
  const link = document.createElement('a')
  link.href = address
  link.download = name.replace(/[^\p{L}\d._-]+/gu, '_').slice(0, 100)
  link.click()
  // The browser has taken what it needs once the click is done.
  setTimeout(() => URL.revokeObjectURL(address), 1_000)
}
