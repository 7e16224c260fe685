/** What goes wrong with deliveries; each is for a number of the next ones, `delay_ms` for all until it is set to 0. */
export type Switches = {
  /** They are lost: never sent, as if Stripe had given up. */
  drop: number;
  /** They are sent twice. */
  duplicate: number;
  /** They are held until so many are there, and then sent latest first. */
  reorder: number;
  /** Their bodies are changed after they were signed. */
  tamper: number;
  /** They are sent so much later, in milliseconds of real time. */
  delay_ms: number;
};

export const NO_SWITCHES: Switches = { drop: 0, duplicate: 0, reorder: 0, tamper: 0, delay_ms: 0 };

type CountedSwitch = Exclude<keyof Switches, "delay_ms">;

/** Whether a switch is on; counts one of its times. */
export function takeSwitch(switches: Switches, name: CountedSwitch): boolean {
  if (switches[name] <= 0) return false;
  switches[name]--;
  return true;
}
