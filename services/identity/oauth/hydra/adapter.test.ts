import { afterAll, beforeAll, describe } from "vitest";
import { identityProviderContract } from "../../../../test/contracts/ports/identity-provider/contract.ts";
import { findHydra, type HydraServer, startHydra } from "../../../../test/support/servers/hydra-server.ts";
import { createLog } from "../../../kit/log.ts";
import { startIdentity, type TestIdentity } from "../../testing.ts";
import { createHydra } from "./adapter.ts";

const program = await findHydra();

describe.skipIf(program === undefined).each(["opaque", "jwt"] as const)(
  "a real Hydra, %s tokens",
  (tokens) => {
    let identity: TestIdentity;
    let hydra: HydraServer;
    beforeAll(async () => {
      [identity, hydra] = await Promise.all([startIdentity(), startHydra(program!, { tokens })]);
    });
    afterAll(() => Promise.all([identity?.stop(), hydra?.stop()]));

    identityProviderContract("Ory Hydra", async ({ accessTokenSeconds }) => {
      const { publicUrl: origin, adminUrl } = hydra;
      const resource = `${origin}/v1`;
      const log = createLog("identity", "silent");
      const settings = { log, adminUrl, origin, resource, accessTokenSeconds, now: Date.now };
      return { provider: createHydra(settings), identity, origin, resource, close: async () => {} };
    });
  },
);
