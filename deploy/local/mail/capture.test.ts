import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import nodemailer from "nodemailer";
import { afterEach, beforeEach, expect, test } from "vitest";
import { freePort } from "../../../services/kit/process/free-port.ts";
import { ask, foreignHeaders, ownHeaders } from "../testing.ts";
import { type MailCapture, startMailCapture } from "./capture.ts";

let dir: string;
let capture: MailCapture;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "berth-mail-"));
  capture = await open();
});
afterEach(async () => {
  await capture.stop();
  await rm(dir, { recursive: true });
});

const open = async () =>
  startMailCapture({
    dir: join(dir, "mail"),
    secret: "a secret of the data folder",
    ports: { smtp: await freePort(), page: await freePort() },
  });

async function send(mail: { subject: string; text: string; html?: string }, url = capture.smtpUrl) {
  const transport = nodemailer.createTransport({ url });
  await transport.sendMail({ from: "berth@berth.localhost", to: "ada@example.com", ...mail });
  transport.close();
}

type Messages = { data: { id: string; subject: string; text: string; html?: string }[] };

async function messages(): Promise<Messages["data"]> {
  const answer = await fetch(`${capture.pageUrl}messages.json`);
  return ((await answer.json()) as Messages).data;
}

test("what is sent is shown, newest first, and stays over restarts, readable by its owner alone", async () => {
  await send({ subject: "First", text: "one\ntwo https://berth.example.com/invitation#token three" });
  await send({ subject: "Second", text: "two" });
  const [, first] = await messages();
  expect((await messages()).map(({ subject }) => subject)).toEqual(["Second", "First"]);
  const list = await (await fetch(capture.pageUrl)).text();
  expect(list.indexOf("Second")).toBeLessThan(list.indexOf("First"));
  const page = await (await fetch(capture.pageUrl + first!.id)).text();
  expect(page).toContain('<a href="https://berth.example.com/invitation#token" rel="noreferrer">');
  expect(page).toContain("one<br>two ");
  const [file] = await readdir(join(dir, "mail"));
  expect((await stat(join(dir, "mail", file!))).mode & 0o777).toBe(0o600);
  await capture.stop();
  capture = await open();
  expect(await messages()).toHaveLength(2);
});

test("others of this machine neither read nor write: they know neither the path nor the password", async () => {
  await send({ subject: "A link", text: "secret" });
  const { origin } = new URL(capture.pageUrl);
  for (const path of ["/", "/messages.json", "/wrong/", "/wrong/messages.json"])
    expect((await fetch(origin + path)).status).toBe(404);
  await expect(
    send({ subject: "x", text: "y" }, capture.smtpUrl.replace(/:[^:@]+@/, ":wrong@")),
  ).rejects.toThrow();
  await expect(send({ subject: "x", text: "y" }, capture.smtpUrl.replace(/\/\/.*@/, "//"))).rejects.toThrow();
  expect(await messages()).toHaveLength(1);
});

test("a mail's markup cannot leave its frame, and nothing in it is loaded or run", async () => {
  const hostile = `"></iframe><script>parent.x=1</script><img src=http://127.0.0.1:9/x>`;
  await send({ subject: `${hostile} subject`, text: hostile, html: hostile });
  const [mail] = await messages();
  const answer = await fetch(capture.pageUrl + mail!.id);
  const page = await answer.text();
  expect(page).not.toContain("<script");
  expect(page).not.toContain("<img");
  expect(page).toContain('<iframe sandbox=""');
  expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
  for (const id of ["mail_1", "..%2f..%2fsecrets.json", "mail_00000000000000000000000000"])
    expect((await fetch(capture.pageUrl + id)).status).toBe(404);
});

test("pages of elsewhere read nothing, whatever name they gave this machine, nor does one of its other servers", async () => {
  await send({ subject: "A link", text: "secret" });
  for (const headers of foreignHeaders(capture.pageUrl))
    expect([headers, (await ask(capture.pageUrl, "GET", headers)).status]).toEqual([headers, 403]);
  for (const headers of ownHeaders(capture.pageUrl))
    expect([headers, (await ask(capture.pageUrl, "GET", headers)).status]).toEqual([headers, 200]);
});

test("a port that somebody else has is an error, and no password is sent there", async () => {
  const taken = Number(new URL(capture.pageUrl).port);
  const [free, secret] = [await freePort(), "another secret"];
  for (const ports of [
    { smtp: taken, page: free },
    { smtp: free, page: taken },
  ])
    await expect(startMailCapture({ dir, secret, ports })).rejects.toMatchObject({ code: "EADDRINUSE" });
});
