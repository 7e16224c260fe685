import { delegateControlGroups } from "../../services/kit/process/control-groups.ts";

/** The folder of the control groups of apps, or why there is none. */
export type LocalGroups = { folder: string; missing?: undefined } | { folder?: undefined; missing: string };

/** Tries to have control groups, which hold apps to their sizes. To be called before other processes are started. */
export function tryGroups(): LocalGroups {
  try {
    return { folder: delegateControlGroups() };
  } catch (error) {
    return { missing: (error as Error).message };
  }
}
