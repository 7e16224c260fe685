import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { createInterface } from "node:readline";

/**
 * For tests: starts a process that runs `body` (statements of a module) and then waits, so that it can be killed.
 * Returns the first value that `body` passes to `print`. `path` is the process's PATH.
 */
export async function launch<T>(
  body: string,
  path = process.env.PATH,
): Promise<{ value: T; process: ChildProcess }> {
  const code = `const print = (value) => console.log(JSON.stringify(value));\n${body}\nsetInterval(() => {}, 1e6);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    env: { ...process.env, PATH: path },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface(child.stdout)) return { value: JSON.parse(line), process: child };
  throw new Error("the launched process exited without printing a value");
}

/** Kills a process with SIGKILL, and waits until it is gone. */
export async function killHard(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
}

/** Returns the URL of a module in deploy/local, for an import in `body`. */
export function moduleUrl(name: string): string {
  return new URL(`./${name}`, import.meta.url).href;
}

/** Waits until `holds` returns true. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 20));
}

type Headers = Record<string, string>;

/** Headers of requests that browsers make to a server of this machine for pages of elsewhere. */
export function foreignHeaders(url: string): Headers[] {
  const { host, port } = new URL(url);
  return [
    { host: "evil.example" },
    { host: `evil.example:${port}`, origin: `http://evil.example:${port}`, "sec-fetch-site": "same-origin" },
    { host: `127.0.0.1.evil.example:${port}` },
    { host: "127.0.0.1" },
    { host, origin: "https://evil.example", "sec-fetch-site": "cross-site" },
    { host, origin: "https://evil.example" },
    { host, origin: "null" },
    { host, origin: "http://127.0.0.1:1", "sec-fetch-site": "same-site" },
    { host, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image" },
    { host, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" },
  ];
}

/** Headers of requests of the server's own pages, of programs, and of links that people follow. */
export function ownHeaders(url: string): Headers[] {
  const { host, port, origin } = new URL(url);
  return [
    { host },
    { host: `localhost:${port}` },
    { host, origin, "sec-fetch-site": "same-origin" },
    { host, origin: "null", "sec-fetch-site": "same-origin" },
    { host, "sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" },
  ];
}

/** Sends a request with exactly these headers, as `fetch` cannot. */
export async function ask(url: string, method: string, headers: Headers): Promise<{ status: number }> {
  const sent = request(url, { method, headers, agent: false }).end();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  return { status: answer.statusCode ?? 0 };
}
