import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll } from "vitest";
import { identityProviderContract } from "../../../../test/contracts/ports/identity-provider/contract.ts";
import { createLog } from "../../../kit/log.ts";
import { testKeys } from "../../../kit/testing/testing.ts";
import { grantEndedAtProvider } from "../../grants/lifecycle.ts";
import { startIdentity, type TestIdentity } from "../../testing.ts";
import { createEmbedded, type EmbeddedProvider } from "./adapter.ts";

let identity: TestIdentity;
beforeAll(async () => {
  identity = await startIdentity();
});
afterAll(() => identity?.stop());

identityProviderContract("embedded", async ({ accessTokenSeconds }) => {
  let provider: EmbeddedProvider | undefined;
  const server = createServer((req, res) => {
    if (!provider?.handle(req, res)) res.writeHead(404).end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const resource = `${origin}/v1`;
  const { pool } = identity;
  provider = await createEmbedded({
    ...{ pool, origin, resource, accessTokenSeconds },
    log: createLog("identity", "silent"),
    secrets: testKeys,
    now: Date.now,
    onGrantEnded: grantEndedAtProvider({ pool, now: Date.now }),
  });
  const close = async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  };
  return { provider, identity, origin, resource, close };
});
