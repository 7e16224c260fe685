import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

let port: number;
let site: string;
let close: () => Promise<void>;

async function serve(...options: string[]): Promise<{ port: number; close: () => Promise<void> }> {
  const probe = createServer();
  await once(probe.listen(0, "127.0.0.1"), "listening");
  const free = (probe.address() as { port: number }).port;
  await new Promise((resolve) => probe.close(resolve));
  const args = [join(import.meta.dirname, "static-server.ts"), ".", ...options];
  const child = spawn(process.execPath, args, { cwd: site, env: { PORT: String(free) } });
  await once(child.stdout, "data");
  const end = async () => {
    child.kill();
    await once(child, "exit");
  };
  return { port: free, close: end };
}

beforeAll(async () => {
  const root = mkdtempSync(join(tmpdir(), "berth-static-"));
  site = join(root, ".site", "site");
  mkdirSync(join(site, "sub"), { recursive: true });
  mkdirSync(join(site, ".git"));
  mkdirSync(join(site, "assets"));
  const files = {
    "index.html": "home",
    "sub/index.html": "sub",
    "style.css": "p {}",
    "assets/index-BUczvBw7.js": "1",
    "assets/site-navigation.js": "2",
    "with space.txt": "text",
    empty: "",
    ".env": "SECRET",
    ".git/config": "SECRET",
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(site, name), content);
  writeFileSync(join(root, "outside.txt"), "SECRET");
  writeFileSync(join(root, ".site", "site-secret.txt"), "SECRET");
  symlinkSync("../../outside.txt", join(site, "out"));
  symlinkSync("..", join(site, "up"));
  symlinkSync(".env", join(site, "shown.txt"));
  symlinkSync("style.css", join(site, "alias.css"));
  const server = await serve();
  port = server.port;
  close = async () => {
    await server.close();
    await rm(root, { recursive: true });
  };
});
afterAll(() => close());

/** Sends the path as it is: clients tidy it up. */
function get(
  path: string,
  method = "GET",
  headers = "",
  at = port,
): Promise<{ status: number; head: string; body: string }> {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(at, "127.0.0.1", () => {
      socket.write(`${method} ${path} HTTP/1.1\r\nhost: x\r\n${headers}connection: close\r\n\r\n`);
    });
    socket.on("data", (data) => (text += data)).on("error", reject);
    socket.on("end", () => {
      const [head = "", ...body] = text.split("\r\n\r\n");
      resolve({ status: Number(head.slice(9, 12)), head, body: body.join("\r\n\r\n") });
    });
  });
}

describe("the static server", () => {
  test("serves files with their types, folders by their index.html, and links that stay inside", async () => {
    expect(await get("/")).toMatchObject({ status: 200, body: "home" });
    expect(await get("/index.html?query=1")).toMatchObject({ status: 200, body: "home" });
    expect((await get("/style.css")).head).toMatch(/content-type: text\/css/i);
    expect(await get("/with%20space.txt")).toMatchObject({ status: 200, body: "text" });
    expect(await get("/alias.css")).toMatchObject({ status: 200, body: "p {}" });
    expect(await get("/empty")).toMatchObject({ status: 200, body: "" });
    expect((await get("/sub")).head).toMatch(/^HTTP\/1.1 308[\s\S]*location: \/sub\//i);
    expect(await get("/sub/")).toMatchObject({ status: 200, body: "sub" });
    expect(await get("/style.css", "HEAD")).toMatchObject({ status: 200, body: "" });
  });

  test("never leads out of its folder, nor to files that begin with a dot", async () => {
    const paths = [
      "/../outside.txt",
      "/../../outside.txt",
      "/%2e%2e/%2e%2e/outside.txt",
      "/..%2f..%2foutside.txt",
      "/sub/../../site-secret.txt",
      "/../site-secret.txt",
      "/..%5c..%5coutside.txt",
      "/%00",
      "/%",
      "/out",
      "/up",
      "/up/site-secret.txt",
      "/up/site/.env",
      "/.env",
      "/.git/config",
      "/shown.txt",
      "/sub/../.env",
      "//etc/passwd",
      "/etc/passwd",
      "http://x/../outside.txt",
      "*",
    ];
    for (const path of paths) {
      const answer = await get(path);
      expect([path, answer.status >= 400 || answer.status === 308]).toEqual([path, true]);
      expect(answer.body).not.toContain("SECRET");
    }
    expect((await get("//sub")).head).not.toMatch(/location: \/\//i);
  });

  test("answers 404 for what is not there, 405 for other methods, 304 for what is known", async () => {
    expect((await get("/nothing")).status).toBe(404);
    expect((await get("/style.css/")).status).toBe(404);
    expect((await get("/", "POST")).status).toBe(405);
    const tag = /etag: (.*)/i.exec((await get("/")).head)![1]!.trim();
    expect((await get("/", "GET", `if-none-match: ${tag}\r\n`)).status).toBe(304);
  });

  test("lets browsers keep files whose names have a hash of their content, and no others", async () => {
    expect((await get("/assets/index-BUczvBw7.js")).head).toContain("immutable");
    for (const path of ["/assets/site-navigation.js", "/", "/style.css"])
      expect((await get(path)).head).toMatch(/cache-control: no-cache/i);
  });

  test("answers a path without a file with index.html if asked to, but not one of a script", async () => {
    expect(await get("/deep/link")).toMatchObject({ status: 404 });
    const drawn = await serve("--fallback");
    const ask = (path: string) => get(path, "GET", "", drawn.port);
    expect(await ask("/deep/link")).toMatchObject({ status: 200, body: "home" });
    expect(await ask("/assets/missing-BUczvBw7.js")).toMatchObject({ status: 404 });
    expect(await ask("/.env")).not.toMatchObject({ body: "SECRET" });
    writeFileSync(join(site, "404.html"), "no such page");
    expect(await ask("/deep/link")).toMatchObject({ status: 404, body: "no such page" });
    await drawn.close();
  });
});
