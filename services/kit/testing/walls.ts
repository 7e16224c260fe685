import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { raiseWalls, type Walls } from "../process/walls.ts";

/** Raises walls that hide these folders; undefined where this machine can have none, which is printed. */
export const wallsHere: ((hidden: string[]) => Promise<Walls>) | undefined = await findWalls();

async function findWalls() {
  const scratch = await mkdtemp(join(tmpdir(), "berth-walls-"));
  try {
    await raiseWalls([scratch], process.env.PATH);
    return (hidden: string[]) => raiseWalls(hidden, process.env.PATH);
  } catch (error) {
    console.log(`Skipped: apps behind walls. ${(error as Error).message}.`);
    return undefined;
  } finally {
    await rm(scratch, { recursive: true });
  }
}
