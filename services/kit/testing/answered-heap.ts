/**
 * A program that sends its parent what an answered request leaves in the heap: bytes each, in the quietest round.
 * It is a process of its own, since whatever else runs in a process of tests grows the same heap.
 */
import { Agent, request } from "node:http";
import { getHeapSpaceStatistics } from "node:v8";
import { AccountService } from "../../../proto/gen/berth/identity/v1/identity_pb.ts";
import { createLog } from "../log.ts";
import { serve } from "../process/server.ts";
import { CALLER_HEADER, signCaller } from "../rpc/caller-token.ts";
import { testKeys } from "./testing.ts";

const ROUNDS = 5;
const REQUESTS = 300;

const collect = globalThis.gc!;
const server = await serve({
  host: "127.0.0.1",
  port: 0,
  grpcPort: 0,
  keys: testKeys,
  log: createLog("kit-test", "error", () => {}),
  ready: async () => true,
  routes: (router) =>
    router.service(AccountService, { getAccount: ({ accountId }) => ({ id: accountId, handle: "ä€😀" }) }),
});
const caller = {
  kind: "user",
  id: "usr_1",
  ip: "192.0.2.1",
  accountId: "acc_1",
  role: "owner",
} as const;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const headers = { "content-type": "application/json", [CALLER_HEADER]: signCaller(testKeys, caller) };
const path = "/berth.identity.v1.AccountService/GetAccount";
const ask = () =>
  new Promise((resolve, reject) => {
    const sent = request({ port: server.port, path, method: "POST", headers, agent }, (answer) => {
      answer.resume().on("end", resolve);
    });
    sent.on("error", reject).end('{"accountId":"acc_1"}');
  });
const kept = () => getHeapSpaceStatistics().find((one) => one.space_name === "old_space")!.space_used_size;

const bytesEach: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const before = kept();
  for (let i = 0; i < REQUESTS; i++) await ask();
  // What survives two of these is kept until all of the heap is collected.
  collect({ type: "minor" });
  collect({ type: "minor" });
  bytesEach.push((kept() - before) / REQUESTS);
}
// The first rounds compile code.
process.send!(Math.min(...bytesEach));
agent.destroy();
await server.stop();
process.exit();
