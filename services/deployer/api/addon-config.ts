import { setTimeout as delay } from "node:timers/promises";
import type { ServiceConfig } from "../../../proto/gen/berth/deployer/v1/catalog_pb.ts";
import { invalid, unavailable } from "../../kit/rpc/refusals.ts";
import type { AddonServer, AddonServers, PlacedAddon } from "../addons/port.ts";
import type { ServiceRow } from "../projects/services-sql.ts";
import { type AddonEngine, type AddonType, isAddon, isDeployable } from "../terms/services.ts";

// What the servers of addons here can have of what a configuration asks for (docs/addons.md#data).

type Servers = Pick<AddonServers, "postgresEngine" | "choiceOf" | "describe" | "cannotGrow">;
type Asked = Pick<ServiceConfig, "replicas" | "version" | "storageGib" | "storageMaxGib" | "pooler">;

/** Why an addon has a single server. */
export const NO_STANDBYS =
  "PostgreSQL has standbys on CloudNativePG only. Addons keep what they were made with: restore a backup of this one into a new one, once the installation makes new ones there.";

const KEEPS_VERSION =
  "An addon keeps its version. Create another one with this version from its data (from: service), and let that take its place (promote).";
const GIB = 1024 ** 3;
/** For the server to say what it is: a service is shown without it otherwise. */
const MOST_MS = 2_000;

/** Throws 422 for what a new service asks for and its server cannot have. */
export async function requireChoice(servers: Servers, type: string, config: Asked = {}): Promise<void> {
  if (isDeployable(type)) return;
  const { replicas, version, storageGib, storageMaxGib, pooler } = config;
  if (type === "postgres") await requireStandbys(servers, replicas);
  const choice = servers.choiceOf(type as AddonType);
  const { versions, versionsReason, storageReason, storageGrowsReason, poolerReason } = choice;
  if (type === "redis" && (replicas ?? 1) > 1 && choice.standbyReason !== undefined)
    throw invalid("config.replicas", "not_supported_here", choice.standbyReason);
  if (version !== undefined && !versions.includes(version))
    throw invalid(
      "config.version",
      "not_supported_here",
      versionsReason ?? `There is no version ${version} here. There is ${words.format(versions)}.`,
    );
  if (storageGib !== undefined && storageReason !== undefined)
    throw invalid("config.storageGib", "not_supported_here", storageReason);
  if (storageMaxGib && storageGrowsReason !== undefined)
    throw invalid("config.storageMaxGib", "not_supported_here", storageGrowsReason);
  if (pooler && poolerReason !== undefined)
    throw invalid("config.pooler", "not_supported_here", poolerReason);
}

/** Whether a change asks for something that only servers of addons have, or may lack. */
export function asksOfServer({ replicas, version, storageGib, storageMaxGib, pooler }: Asked): boolean {
  return [replicas, version, storageGib, storageMaxGib, pooler].some((one) => one !== undefined);
}

/** Throws 422 for a change that the server of an addon cannot follow. */
export async function requireChange(
  servers: Servers,
  environmentId: string,
  row: Pick<ServiceRow, "id" | "type" | "config" | "addonState" | "addonEngine" | "staged">,
  change: Asked,
): Promise<void> {
  const { id: serviceId, type, config, addonState, addonEngine, staged } = row;
  if (!isAddon(type)) return;
  const made = addonEngine ?? (addonState === "ready" ? "usual" : undefined);
  if (type === "postgres") await requireStandbys(servers, change.replicas, made);
  const version = change.version === config.version ? undefined : change.version;
  const storageGib = change.storageGib === config.storageGib ? undefined : change.storageGib;
  const storageMaxGib = change.storageMaxGib === config.storageMaxGib ? undefined : change.storageMaxGib;
  const pooler = change.pooler === config.pooler ? undefined : change.pooler;
  const replicas = type === "redis" && change.replicas !== config.replicas ? change.replicas : undefined;
  await requireChoice(servers, type, { replicas, version, storageGib, storageMaxGib, pooler });
  if (staged) return;
  const addon = { serviceId, type: type as AddonType, environmentId, engine: addonEngine ?? undefined };
  if (version !== undefined) await requireSameVersion(servers, addon, version);
  for (const [field, gib] of Object.entries({ storageGib, storageMaxGib }))
    if (gib) await requireGrowth(servers, addon, `config.${field}`, gib, config.storageGib);
}

/** Throws 422 unless the server of an addon has this version: it may be said of one that was made without. */
async function requireSameVersion(servers: Servers, addon: PlacedAddon, version: string): Promise<void> {
  const { version: found = "" } = await servers.describe(addon).catch(refuseUnavailable);
  if (found !== version && !found.startsWith(`${version}.`))
    throw invalid("config.version", "not_supported_here", KEEPS_VERSION);
}

async function requireGrowth(
  servers: Servers,
  addon: PlacedAddon,
  field: string,
  gib: number,
  before = 0,
): Promise<void> {
  const { storageBytes = 0 } = await servers.describe(addon).catch(refuseUnavailable);
  const least = Math.max(before, storageBytes / GIB);
  if (gib < least)
    throw invalid(field, "out_of_range", `The volume has ${least} GiB, and volumes never shrink.`);
  const refusal = await servers.cannotGrow(addon, gib).catch(refuseUnavailable);
  if (refusal !== undefined) throw invalid(field, "not_supported_here", refusal);
}

function refuseUnavailable(): never {
  throw unavailable("The addon's server cannot be asked right now. Try again.");
}

/** Throws 422 for a PostgreSQL addon that is to have standbys and cannot; `made`: the engine of one that was made. */
async function requireStandbys(servers: Servers, replicas = 1, made?: AddonEngine | "usual"): Promise<void> {
  if (replicas <= 1) return;
  const engine = made ?? (await servers.postgresEngine()) ?? "usual";
  if (engine === "usual") throw invalid("config.replicas", "not_supported_here", NO_STANDBYS);
}

/** Returns what is shown of an addon's server; undefined where that is not known in time. */
export async function serverShown(servers: Servers, addon: PlacedAddon): Promise<AddonServer | undefined> {
  const late = delay(MOST_MS, undefined, { ref: false });
  const found = await Promise.race([servers.describe(addon), late]).catch(() => undefined);
  return found && Object.values(found).some((value) => value !== undefined) ? found : undefined;
}

const words = new Intl.ListFormat("en-GB", { type: "disjunction" });
