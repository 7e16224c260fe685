import { connect } from "@nats-io/transport-node";
import { expect, inject, test } from "vitest";
import { freePort } from "../process/free-port.ts";
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
