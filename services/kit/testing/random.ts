/** Numbers and choices that a seed decides (mulberry32). */
export type Random = ReturnType<typeof createRandom>;

export function createRandom(seed: number) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    /** A whole number from 0 up to a bound, without it. */
    below: (bound: number): number => Math.floor(next() * bound),
    /** A whole number, both bounds included. */
    between: (low: number, high: number): number => low + Math.floor(next() * (high - low + 1)),
    of: <T>(choices: readonly T[]): T => choices[Math.floor(next() * choices.length)]!,
  };
}
