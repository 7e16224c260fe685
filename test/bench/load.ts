import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";

export type Load = {
  origin: string;
  path: string;
  headers: Record<string, string>;
  /** GET unless given. */
  method?: string;
  body?: string;
  connections: number;
  ms: number;
};
export type Measured = { requests: number; perSecond: number; statuses: Record<string, number> };

/** Sends a request again and again over keep-alive connections from a separate process for `ms`, and counts the answers. */
export async function load(options: Load): Promise<Measured> {
  const child = spawn(process.execPath, [import.meta.filename], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(options));
  let out = "";
  child.stdout.on("data", (chunk) => {
    out += chunk;
  });
  await once(child, "close");
  return JSON.parse(out) as Measured;
}

const SILENT_MS = 10_000;
const HEAD_END = "\r\n\r\n";
/** No head is longer; of a chunk no more is made text. */
const HEAD_BYTES = 4_096;

/**
 * Writes the bytes of a request again and again, and reads no more of an answer than its status and length: with an HTTP
 * client the load takes as much of the machine as the gateway, from those that are measured.
 */
async function run({
  origin,
  path,
  headers,
  method = "GET",
  body = "",
  connections,
  ms,
}: Load): Promise<Measured> {
  const { hostname, port, host } = new URL(origin);
  const length = method === "GET" ? {} : { "content-length": String(Buffer.byteLength(body)) };
  const fields = Object.entries({ host, ...headers, ...length }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const request = Buffer.from(`${method} ${path} HTTP/1.1\r\n${fields.join("")}\r\n${body}`);
  const statuses: Record<string, number> = {};
  let requests = 0;
  const started = performance.now();
  const worker = async () => {
    const socket = connect(Number(port), hostname).setNoDelay();
    socket.setTimeout(SILENT_MS, () => socket.destroy(new Error("there is no answer")));
    const closed = once(socket, "close");
    let head = "";
    let received = 0;
    let length: number | undefined;
    let done = false;
    socket.on("data", (chunk: Buffer) => {
      received += chunk.length;
      if (length === undefined) {
        head += chunk.toString("latin1", 0, HEAD_BYTES);
        const end = head.indexOf(HEAD_END);
        if (end < 0) return;
        const status = head.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length);
        statuses[status] = (statuses[status] ?? 0) + 1;
        length = end + HEAD_END.length + Number(/\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      }
      if (received < length) return;
      [head, received, length] = ["", 0, undefined];
      requests++;
      done = performance.now() - started >= ms;
      if (done) socket.end();
      else socket.write(request);
    });
    socket.write(request);
    await closed;
    if (!done) throw new Error("a connection was closed");
  };
  await Promise.all(Array.from({ length: connections }, worker));
  const seconds = (performance.now() - started) / 1000;
  return { requests, perSecond: requests / seconds, statuses };
}

if (import.meta.main) {
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  process.stdout.write(JSON.stringify(await run(JSON.parse(input) as Load)));
}
