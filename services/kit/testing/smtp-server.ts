import { buffer } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";

export type Received = {
  from: string;
  to: string[];
  headers: Map<string, string>;
  text: string;
  /** Empty for a mail of text alone. */
  html: string;
  raw: string;
  /** When all of it had arrived, in ms since 1970. */
  at: number;
};

/** Returns the link with a secret that a mail brings, and throws when there is none. */
export function secretLinkIn(mail: Received): URL {
  const link = /https?:\S+#\S+$/m.exec(mail.text)?.[0];
  if (!link) throw new Error(`no link is in the mail "${mail.headers.get("subject")}"`);
  return new URL(link);
}

type MailboxOptions = {
  /**
   * Decides on a recipient: a number is the status it is refused with, `"hang"` never answers, `"drop"` takes the mail
   * and cuts the connection before it is confirmed.
   */
  refuse?: (to: string, tries: number) => number | "drop" | "hang" | undefined;
  /** The status with which every sender, or every text, is refused. */
  refuseSender?: number;
  refuseText?: number;
  password?: string;
  /** Where it listens: a free port of 127.0.0.1 unless given. */
  at?: { host: string; port: number };
};

const refusal = (status: number | undefined) =>
  status === undefined ? null : Object.assign(new Error("no"), { responseCode: status });

/** An SMTP server that keeps what it is sent. */
export async function startMailbox(options: MailboxOptions = {}) {
  const received: Received[] = [];
  const tries = new Map<string, number>();
  const server = new SMTPServer({
    authOptional: options.password === undefined,
    allowInsecureAuth: true,
    disabledCommands: ["STARTTLS"],
    logger: false,
    onAuth: ({ password }, _session, done) =>
      password === options.password ? done(null, { user: "berth" }) : done(new Error("no")),
    onRcptTo: ({ address }, _session, done) => {
      const n = (tries.get(address) ?? 0) + 1;
      tries.set(address, n);
      const answer = options.refuse?.(address, n);
      if (answer !== "hang") done(refusal(typeof answer === "number" ? answer : undefined));
    },
    onMailFrom: (_address, _session, done) => done(refusal(options.refuseSender)),
    onData: async (stream, session, done) => {
      const raw = (await buffer(stream).catch(() => undefined))?.toString();
      // The sender went away in the midst of it.
      if (raw === undefined) return done();
      const to = session.envelope.rcptTo.map(({ address }) => address);
      received.push({
        from: (session.envelope.mailFrom as { address: string }).address,
        to,
        ...parse(raw),
        raw,
        at: Date.now(),
      });
      if (to.some((address) => options.refuse?.(address, tries.get(address)!) === "drop"))
        for (const connection of server.connections) connection.close();
      else done(refusal(options.refuseText));
    },
  });
  server.on("error", () => {});
  const { host, port: wanted } = options.at ?? { host: "127.0.0.1", port: 0 };
  await new Promise<void>((resolve) => server.listen(wanted, host, resolve));
  const { port } = server.server.address() as { port: number };
  const login = options.password === undefined ? "" : `berth:${options.password}@`;
  return {
    url: `smtp://${login}${host}:${port}`,
    received,
    /** What came for an address so far. */
    for: (address: string) => received.filter(({ to }) => to.includes(address)),
    tries: (address: string) => tries.get(address) ?? 0,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const connection of server.connections) connection.close();
      }),
  };
}

export type Mailbox = Awaited<ReturnType<typeof startMailbox>>;

function parse(raw: string): Pick<Received, "headers" | "text" | "html"> {
  const [head = "", ...body] = raw.split("\r\n\r\n");
  const lines = head
    .replace(/\r\n[ \t]+/g, " ")
    .trim()
    .split("\r\n");
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 2)]),
  );
  const encoded = body.join("\r\n\r\n");
  const type = headers.get("content-type") ?? "";
  const boundary = /boundary="([^"]+)"/.exec(type)?.[1];
  if (boundary !== undefined) {
    const parts = encoded.split(`--${boundary}`).slice(1, -1).map(parse);
    const join = (of: "text" | "html") => parts.map((part) => part[of]).join("");
    return { headers, text: join("text"), html: join("html") };
  }
  const content = decoded(encoded, headers.get("content-transfer-encoding"));
  return type.startsWith("text/html")
    ? { headers, text: "", html: content }
    : { headers, text: content, html: "" };
}

function decoded(text: string, encoding: string | undefined): string {
  if (encoding === "base64") return Buffer.from(text, "base64").toString();
  return encoding === "quoted-printable" ? unquoted(text) : text;
}

function unquoted(text: string): string {
  const joined = text.replace(/=\r\n/g, "");
  const bytes = joined.replace(/=([0-9A-F]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return Buffer.from(bytes, "latin1").toString();
}
