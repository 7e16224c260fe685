import { once } from "node:events";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { startMailbox } from "./smtp-server.ts";
import { eventually } from "./testing.ts";

test("a sender that dies in the midst of a mail leaves nothing, and the next one is served", async () => {
  const box = await startMailbox();
  const { hostname, port } = new URL(box.url);
  const say = async (to: string, end: string) => {
    const socket = connect(Number(port), hostname).setEncoding("utf8");
    for (const line of [
      "EHLO a",
      "MAIL FROM:<a@example.com>",
      `RCPT TO:<${to}>`,
      "DATA",
      `Subject: x\r\n\r\n${end}`,
    ]) {
      await once(socket, "data");
      socket.write(`${line}\r\n`);
    }
    return socket;
  };
  const dying = await say("lost@example.com", "half");
  dying.destroy();
  const other = await say("kept@example.com", "whole\r\n.");
  await eventually("the whole mail arrives", async () => box.for("kept@example.com").length === 1);
  other.destroy();
  await box.stop();
  expect(box.for("lost@example.com")).toEqual([]);
});
