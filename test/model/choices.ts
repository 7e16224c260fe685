/**
 * The random choices of a schedule, drawn from a seed or given. A schedule is the list of its draws: 0 is always the
 * simplest choice, and draws that are not given are 0, so a shorter list of smaller numbers is a simpler schedule.
 */
export class Choices {
  readonly made: number[] = [];
  #state: number;
  #given: readonly number[] | undefined;

  constructor(source: number | readonly number[]) {
    this.#state = typeof source === "number" ? source : 0;
    this.#given = typeof source === "number" ? undefined : source;
  }

  /** Returns a number from 0 to `count` - 1. */
  below(count: number): number {
    const drawn = this.#given
      ? Math.min(this.#given[this.made.length] ?? 0, count - 1)
      : Math.floor(this.#random() * count);
    this.made.push(drawn);
    return drawn;
  }

  /** Returns `true` with this probability. */
  chance(probability: number): boolean {
    if (this.#given) return this.below(2) === 1;
    const happens = this.#random() < probability;
    this.made.push(happens ? 1 : 0);
    return happens;
  }

  of<T>(options: readonly T[]): T {
    return options[this.below(options.length)]!;
  }

  // mulberry32
  #random(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
}

/** Returns the seed of one schedule of a run. */
export function seedOf(runSeed: number, schedule: number): number {
  return (Math.imul(runSeed, 0x9e3779b1) ^ Math.imul(schedule + 1, 0x85ebca6b)) | 0;
}

/** Returns a failing list of draws that is made as short and small as it can be in this time. */
export async function shrink(
  made: readonly number[],
  fails: (made: readonly number[]) => Promise<boolean>,
  ms: number,
): Promise<readonly number[]> {
  let best = made.slice(0, made.findLastIndex((one) => one !== 0) + 1);
  const end = performance.now() + ms;
  const better = async (candidate: readonly number[]) => {
    if (performance.now() >= end || !(await fails(candidate))) return false;
    best = candidate.slice(0, candidate.findLastIndex((one) => one !== 0) + 1);
    return true;
  };
  for (let before = -1; before !== weight(best) && performance.now() < end; ) {
    before = weight(best);
    for (let size = best.length >> 1; size >= 1; size >>= 1)
      for (let at = best.length - size; at >= 0; at -= size) {
        if (at + size > best.length) continue;
        if (await better(best.toSpliced(at, size))) continue;
        if (best.slice(at, at + size).some((one) => one !== 0))
          await better([...best.slice(0, at), ...Array(size).fill(0), ...best.slice(at + size)]);
      }
    for (let at = 0; at < best.length; at++) if (best[at]! > 1) await better(best.with(at, best[at]! >> 1));
  }
  return best;
}

function weight(made: readonly number[]): number {
  return made.reduce((sum, one) => sum + 1 + one, 0);
}
