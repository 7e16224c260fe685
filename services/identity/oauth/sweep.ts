import type { Db } from "../../kit/postgres/db.ts";
import { deleteOldGrants } from "../grants/sql.ts";
import { deleteExpiredDevices } from "./devices/sql.ts";
import { deleteExpiredArtifacts } from "./embedded/artifacts.ts";
import { deleteExpiredChallenges } from "./sql.ts";

const BATCH = 1_000;

/** Deletes expired challenges, artifacts and requests of devices, and grants that ended a month ago. */
export async function sweepOauth(db: Db, now: Date): Promise<void> {
  const batches = [deleteExpiredChallenges, deleteExpiredArtifacts, deleteExpiredDevices, deleteOldGrants];
  for (const deleteBatch of batches) while ((await deleteBatch(db, now, BATCH)) === BATCH);
}
