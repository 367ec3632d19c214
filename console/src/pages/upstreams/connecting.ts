// Which server a browser went away to connect: kept by the tab, for as long as that may take.
const KEPT_AS = 'connecting'

export function remember(name: string): void {
  sessionStorage.setItem(KEPT_AS, name)
}

export function remembered(): string | undefined {
  return sessionStorage.getItem(KEPT_AS) ?? undefined
}

export function forget(): void {
  sessionStorage.removeItem(KEPT_AS)
}
