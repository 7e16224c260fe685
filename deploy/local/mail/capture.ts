import { hkdfSync, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";
import { isOwnRequest, NOT_OWN_REQUEST } from "../../../services/kit/network/own-origin.ts";
import { listPage, MAIL_POLICY, mailPage } from "./mail-page.ts";
import { createMailStore, type MailStore } from "./mail-store.ts";

export type MailCapture = Awaited<ReturnType<typeof startMailCapture>>;

const STYLE = join(import.meta.dirname, "mail.css");
const MAX_MAIL = 5 * 1024 * 1024;

/**
 * Takes the platform's mails instead of sending them, and shows them on a page. Mails hold links that open accounts:
 * other users of this machine know neither the password of the SMTP server nor the path of the page, both made of
 * `secret`.
 */
export async function startMailCapture(options: {
  dir: string;
  secret: string;
  ports: { smtp: number; page: number };
}) {
  const { dir, secret, ports } = options;
  const keyOf = (what: string) => Buffer.from(hkdfSync("sha256", secret, "", what, 16)).toString("base64url");
  const [password, pageKey] = [keyOf("mail password"), keyOf("mail page")];
  const store = createMailStore(dir);
  const smtp = await listenSmtp(store, password, ports.smtp);
  const page = createServer((request, response) => {
    answer(store, pageKey, request, response).catch(() => response.destroy());
  });
  page.listen(ports.page, "127.0.0.1");
  await once(page, "listening");
  return {
    smtpUrl: `smtp://berth:${password}@127.0.0.1:${ports.smtp}`,
    pageUrl: `http://127.0.0.1:${ports.page}/${pageKey}/`,
    stop: async () => {
      page.close();
      page.closeAllConnections();
      await new Promise<void>((resolve) => smtp.close(() => resolve()));
    },
  };
}

async function listenSmtp(store: MailStore, password: string, port: number): Promise<SMTPServer> {
  const server = new SMTPServer({
    size: MAX_MAIL,
    allowInsecureAuth: true,
    disabledCommands: ["STARTTLS"],
    logger: false,
    onAuth: (login, _session, done) =>
      isSame(login.password ?? "", password)
        ? done(null, { user: "berth" })
        : done(new Error("wrong password")),
    onData(stream, _session, done) {
      buffer(stream)
        .then((raw) => store.add(raw))
        .then(
          () => done(),
          (error) => done(error),
        );
    },
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  server.on("error", () => {});
  return server;
}

async function answer(store: MailStore, key: string, request: IncomingMessage, response: ServerResponse) {
  if (!isOwnRequest(request))
    return void response.writeHead(403, { "content-type": "text/plain" }).end(NOT_OWN_REQUEST);
  const [, given = "", id = "", ...more] = (request.url ?? "").split("?")[0]!.split("/");
  if (request.method !== "GET" || !isSame(given, key) || more.length > 0)
    return void response.writeHead(404).end();
  const headers = {
    "content-security-policy": MAIL_POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
  };
  // For scripts.
  if (id === "messages.json")
    return void response
      .writeHead(200, { ...headers, "content-type": "application/json" })
      .end(JSON.stringify({ data: await store.list() }));
  if (id === "mail.css")
    return void response
      .writeHead(200, { ...headers, "content-type": "text/css" })
      .end(await readFile(STYLE));
  const mail = id === "" ? undefined : await store.find(id);
  if (id !== "" && !mail) return void response.writeHead(404, headers).end();
  const shown = mail ? mailPage(mail) : listPage(await store.list());
  response.writeHead(200, { ...headers, "content-type": "text/html; charset=utf-8" }).end(shown.text);
}

function isSame(given: string, wanted: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(wanted)];
  return one.length === other.length && timingSafeEqual(one, other);
}
