/**
 * The best few of many slots: highest score first, ties as `tie` has them. Sorts a little more than `limit` at a time,
 * and from then on looks only at what beats the last of those. Cost: one comparison for most.
 */
export const top = (
  slots: Int32Array,
  count: number,
  scores: Float64Array,
  limit: number,
  tie: (a: number, b: number) => number
): Array<number> => {
  const order = (a: number, b: number) => scores[b]! - scores[a]! || tie(a, b)
  const room = 4 * limit
  const best: Array<number> = []
  let last = -1
  let bar = 0
  for (let i = count - 1; i >= 0; i--) { // the newest slots last: ties are won by what is new
    const slot = slots[i]!
    const score = scores[slot]!
    if (score < bar || (score === bar && last >= 0 && tie(last, slot) < 0)) continue
    if (best.push(slot) < room) continue
    best.sort(order).length = limit
    last = best[limit - 1]!
    bar = scores[last]!
  }
  best.sort(order)
  if (best.length > limit) best.length = limit
  return best
}
