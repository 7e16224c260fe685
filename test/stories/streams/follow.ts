import { openEvents } from "../../support/events.ts";
import type { World } from "../../support/world.ts";

export type StreamOptions = { lastEventId?: string; token?: string; accept?: string };

/** Opens a stream, as the owner unless `options` names another token. */
export const openStream = (world: World, path: string, options: StreamOptions = {}) =>
  openEvents(world.baseUrl + path, { token: world.ownerToken, ...options });

/** Creates a service of this type without a deployment and returns its path. */
export async function createService(world: World, type: string): Promise<string> {
  const { E, S } = await world.environment();
  await world.must("POST", `${E}/services`, { name: type, type });
  return S(type);
}

/** Returns how many calls of a method of the deployer have ended. */
export const countCalls = (world: World, method: string) =>
  world.logLines.filter((line) => line.includes(`DeploymentService/${method}"`) && line.includes('"rpc"'))
    .length;
