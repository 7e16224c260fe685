/** Faults of deliveries: each applies to that many of the next ones, `delay_ms` to all until it is 0 again. */
export type Switches = {
  /** Never sent, as if Stripe had given up. */
  drop: number;
  /** Sent twice. */
  duplicate: number;
  /** Held until there are this many, then sent latest first. */
  reorder: number;
  /** The body is changed after it was signed. */
  tamper: number;
  /** Delay before sending, in milliseconds of real time. */
  delay_ms: number;
};

export const NO_SWITCHES: Switches = { drop: 0, duplicate: 0, reorder: 0, tamper: 0, delay_ms: 0 };

type CountedSwitch = Exclude<keyof Switches, "delay_ms">;

/** Returns whether a switch is on, and counts it down. */
export function takeSwitch(switches: Switches, name: CountedSwitch): boolean {
  if (switches[name] <= 0) return false;
  switches[name]--;
  return true;
}
