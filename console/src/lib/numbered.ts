/** Items with their places: for what never moves, so that its place is who it is. */
export function numbered<Item>(items: readonly Item[]): { item: Item; at: number }[] {
  return items.map((item, at) => ({ item, at }))
}
