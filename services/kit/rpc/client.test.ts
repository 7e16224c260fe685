import { once } from "node:events";
import http from "node:http";
import { setImmediate as endOfTurn } from "node:timers/promises";
import { Code } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { InternalService } from "../../../proto/gen/berth/identity/v1/internal_pb.ts";
import { freePort } from "../process/free-port.ts";
import { testKeys } from "../testing/testing.ts";
import { serviceClient } from "./client.ts";

test("a call that no process accepts is made again, for a while", async () => {
  const port = Number(await freePort());
  const url = `http://127.0.0.1:${port}`;
  const identity = serviceClient(InternalService, { url, keys: testKeys, name: "test" });
  const call = identity.lookupCaller({ tokenHash: new Uint8Array(32) });
  // Until it was refused.
  for (let turn = 0; turn < 20; turn++) await endOfTurn();
  const server = http.createServer((_req, res) => res.writeHead(401).end());
  server.listen(port, "127.0.0.1");
  await expect(call).rejects.toMatchObject({ code: Code.Unauthenticated });
  server.close();
  server.closeAllConnections();
  await once(server, "close");
  await expect(identity.lookupCaller({ tokenHash: new Uint8Array(32) })).rejects.toMatchObject({
    code: Code.Unavailable,
  });
});
