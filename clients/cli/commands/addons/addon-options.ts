import type { Service, ServiceConfig } from "../../../typescript/src/generated/types.ts";
import { numberOf } from "../../option-values.ts";

/** What is chosen of a new addon. */
export const ADDON_OPTIONS = {
  version: {
    kind: "text",
    value: "VERSION",
    about: "Version of an addon: 18; the installation's by default",
  },
  storage: { kind: "text", value: "GIB", about: "Storage of an addon in GiB; the installation's by default" },
  "storage-max": {
    kind: "text",
    value: "GIB",
    about: "Up to how many GiB an addon's storage grows by itself; it does not by default",
  },
  pooler: {
    kind: "text",
    value: "on|off",
    about: "Whether a postgres addon has a pooler, to which POOLED_URL leads; off by default",
    choices: ["on", "off"],
  },
} as const;

/** Returns the command that gives the URL of an addon to all services of its environment. */
export function commandToConnect({ name, type }: Pick<Service, "name" | "type">): string {
  const variable = type === "redis" ? "REDIS_URL" : "DATABASE_URL";
  return `berth vars set ${variable} --connection ${name}.URL --scope environment`;
}

type Chosen = Partial<Record<keyof typeof ADDON_OPTIONS, string | undefined>>;

/** Returns the members of a configuration that the options mean; undefined where none is given. */
export function addonConfigOf({ version, ...chosen }: Chosen): ServiceConfig | undefined {
  const storageGib = numberOf("--storage", chosen.storage);
  const storageMaxGib = numberOf("--storage-max", chosen["storage-max"]);
  const config = {
    ...(version !== undefined && { version }),
    ...(storageGib !== undefined && { storageGib }),
    ...(storageMaxGib !== undefined && { storageMaxGib }),
    ...(chosen.pooler !== undefined && { pooler: chosen.pooler === "on" }),
  };
  return Object.keys(config).length > 0 ? config : undefined;
}

const GIB = 1024 ** 3;

/** Returns version and storage of an addon for people: what its server has, else what was chosen. */
export function serverOf({ config, server }: Service): [version: string, storage: string] {
  const gib = server?.storageBytes === undefined ? config.storageGib : server.storageBytes / GIB;
  const version = server?.version ?? config.version ?? "";
  return [version, gib === undefined ? "" : `${Number(gib.toFixed(1))} GiB`];
}
