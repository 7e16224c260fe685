import { setTimeout as delay } from "node:timers/promises";
import { type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { invalid } from "../../kit/rpc/refusals.ts";
import type { AddonBackups, PlacedAddon } from "../addons/port.ts";

/** Returns a moment of an addon's past. Throws 422 unless its data can be had (docs/addons.md#a-moment). */
export async function requireMoment(
  backups: Pick<AddonBackups, "pointInTime">,
  addon: PlacedAddon,
  at: Timestamp,
  field = "at",
): Promise<Date> {
  const found = await backups.pointInTime(addon);
  if ("reason" in found) throw invalid(field, "not_supported_here", found.reason);
  const moment = timestampDate(at);
  const { from } = found;
  if (!from)
    throw invalid(
      field,
      "out_of_range",
      "There is no moment to go back to yet: the first base backup of the addon has not ended.",
    );
  const now = new Date();
  if (moment >= from && moment <= now) return moment;
  throw invalid(
    field,
    "out_of_range",
    `at must be from ${from.toISOString()} until now, ${now.toISOString()}.`,
  );
}

/** For the cluster to say what an archive has: a service is shown without it otherwise. */
const MOST_MS = 2_000;

/** Returns what is shown of an addon's archive; nothing where it has none, or the cluster does not answer in time. */
export async function archiveShown(
  backups: Pick<AddonBackups, "pointInTime" | "noArchive">,
  addon: PlacedAddon,
): Promise<{ reason?: string; oldestRestorableAt?: Timestamp; archiveFailure?: string }> {
  if (backups.noArchive(addon) !== undefined) return {};
  const late = delay(MOST_MS, undefined, { ref: false });
  const found = await Promise.race([backups.pointInTime(addon), late]).catch(() => undefined);
  if (!found) return {};
  if ("reason" in found) return { reason: found.reason };
  return { oldestRestorableAt: found.from && timestampFromDate(found.from), archiveFailure: found.failure };
}
