import { describe, inject } from "vitest";
import { findHydra } from "../servers/hydra-server.ts";
import { openPlatform, type Platform } from "../world.ts";
import { openHydraPlatform } from "./hydra-platform.ts";

export type Provider = {
  name: "embedded" | "Ory Hydra";
  /** The program of Hydra, if that is the provider. */
  hydra: string | undefined;
  /** Starts the platform with this provider. */
  open: () => Promise<Platform>;
};

const hydra = await findHydra();

/**
 * Defines tests for the platform with each provider; those of Hydra are skipped where there is none. In a run on a
 * cluster there is one platform, with the provider that it was installed with.
 */
export function withEachProvider(tests: (provider: Provider) => void): void {
  describe("with the provider embedded", () =>
    tests({ name: "embedded", hydra: undefined, open: openPlatform }));
  if (inject("platform")) return;
  describe.skipIf(hydra === undefined)("with the provider Ory Hydra", () =>
    tests({ name: "Ory Hydra", hydra, open: () => openHydraPlatform(hydra!) }),
  );
}
