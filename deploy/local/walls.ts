import { dirname } from "node:path";
import { credentialsFile } from "../../clients/cli/session/credentials.ts";
import { raiseWalls } from "../../services/kit/process/walls.ts";
import { StartFailure } from "./failure.ts";

/** Whether apps and builds are run behind walls, and if not, why. */
export type LocalWalls = { hidden: string[]; missing?: string };

/**
 * Tries the walls of apps and builds, which see neither the data folder nor the sign-ins of `berth`. `wanted` is APP_WALLS
 * of the environment: with `on`, Berth does not start without.
 *
 * @throws StartFailure `usage`, `cannotRun`
 */
export async function tryWalls(
  folder: string,
  appsDir: string,
  wanted = process.env.APP_WALLS || "auto",
): Promise<LocalWalls> {
  if (!["on", "auto", "off"].includes(wanted))
    throw new StartFailure("usage", `APP_WALLS is on, auto or off, not "${wanted}".`);
  const hidden = [folder, dirname(credentialsFile())];
  if (wanted === "off") return { hidden, missing: "APP_WALLS is off" };
  try {
    await raiseWalls([...hidden, appsDir], process.env.PATH);
    return { hidden };
  } catch (error) {
    const missing = (error as Error).message;
    if (wanted === "on") throw new StartFailure("cannotRun", `APP_WALLS is on, but ${missing}.`);
    return { hidden, missing };
  }
}
