import { RuntimeRefusal } from "../terms/runtime-refusal.ts";
import type { Release } from "./port.ts";

type Order = Pick<Release, "version" | "revision">;

/** Throws `release_superseded` for a release that is older than the one applied. */
export function refuseOlder(applied: Order, release: Order): void {
  const difference = release.version - applied.version || release.revision - applied.revision;
  if (difference < 0)
    throw new RuntimeRefusal("release_superseded", `Version ${applied.version} has already been applied.`);
}

/** Returns the refusal of a cursor that did not come from this log. */
export function invalidCursor(): RuntimeRefusal {
  return new RuntimeRefusal("invalid_cursor", "The cursor does not belong to this log.");
}
