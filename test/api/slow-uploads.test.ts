import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { archiveOf, deployArchive, settled } from "../support/apps.ts";
import { startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ UPLOAD_LIMITS: JSON.stringify({ stallMs: 1_000 }) });
});
afterAll(() => world?.stop());

/** An upload that sends a few bytes and then nothing; gives the status that ends it. */
async function hangingUpload(url: string, contentType: string): Promise<number> {
  const { port, pathname, search } = new URL(url);
  const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
  socket.write(
    `PUT ${pathname}${search} HTTP/1.1\r\nhost: x\r\ncontent-type: ${contentType}\r\ncontent-length: 1000000\r\n\r\nsome`,
  );
  const status = new Promise<number>((resolve) => {
    socket.once("data", (said) => resolve(Number(said.toString("latin1", 9, 12))));
  });
  void text(socket).catch(() => {});
  return status.finally(() => socket.destroy());
}

test("clients that hang on one upload URL do not keep others from uploading, and are ended", async () => {
  const { E, S } = await world.environment();
  for (const name of ["slow", "web"]) await world.must("POST", `${E}/services`, { name, type: "web" });
  const target = await world.must<{ uploadUrl: string; contentType: string }>(
    "POST",
    `${S("slow")}/uploads`,
    {},
  );
  const hanging = Array.from({ length: 64 }, () => hangingUpload(target.uploadUrl, target.contentType));
  const { version } = await deployArchive(world, S("web"), await archiveOf("static"));
  expect(await settled(world, S("web"), version)).toMatchObject({ status: "applied" });
  const statuses = await Promise.all(hanging);
  expect(new Set(statuses)).toEqual(new Set([408, 429]));
  expect(statuses.filter((status) => status === 408).length).toBeGreaterThanOrEqual(2);
});
