import { connect } from "@nats-io/transport-node";
import { expect, inject, test } from "vitest";
import { freePort } from "../process/free-port.ts";
import { replay } from "../replay.ts";
import { natsServers } from "./bus.ts";

const open = async (urls: string) => connect({ ...natsServers(urls), reconnect: false });

test("with tls: in its URL, a server without TLS is refused before it gets a password", async () => {
  await expect(open(inject("natsUrl").replace(/^nats:/, "tls:"))).rejects.toThrow("does not support 'tls'");
});

test("of several servers, another one serves while the first is away", async () => {
  const url = new URL(inject("natsUrl"));
  const second = `nats://${url.host}`;
  url.port = String(await freePort());
  const nc = await open(`${url.href},${second}`);
  expect(nc.getServer()).toBe(new URL(second).host);
  await nc.close();
});

test("the command that sends dead letters again ends with the reason when NATS cannot be reached", async () => {
  const nobody = `nats://127.0.0.1:${await freePort()}`;
  await expect(replay(nobody, undefined, 1_000)).rejects.toThrow(
    "NATS could not be reached within 1 s: connection refused",
  );
});
