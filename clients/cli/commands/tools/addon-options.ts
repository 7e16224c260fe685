import type { Service, ServiceConfig } from "../../../typescript/src/generated/types.ts";
import { numberOf } from "../deploy/logs.ts";

/** What is chosen of a new addon. */
export const ADDON_OPTIONS = {
  version: {
    kind: "text",
    value: "VERSION",
    about: "Version of an addon: 18; the installation's by default",
  },
  storage: { kind: "text", value: "GIB", about: "Storage of an addon in GiB; the installation's by default" },
} as const;

type Chosen = { version?: string | undefined; storage?: string | undefined };

/** Returns the members of a configuration that the options mean; undefined where none is given. */
export function addonConfigOf({ version, storage }: Chosen): ServiceConfig | undefined {
  const storageGib = numberOf("--storage", storage);
  if (version === undefined && storageGib === undefined) return undefined;
  return { ...(version !== undefined && { version }), ...(storageGib !== undefined && { storageGib }) };
}

const GIB = 1024 ** 3;

/** Returns version and storage of an addon for people: what its server has, else what was chosen. */
export function serverOf({ config, server }: Service): [version: string, storage: string] {
  const gib = server?.storageBytes === undefined ? config.storageGib : server.storageBytes / GIB;
  const version = server?.version ?? config.version ?? "";
  return [version, gib === undefined ? "" : `${Number(gib.toFixed(1))} GiB`];
}
