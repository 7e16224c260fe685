import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open, settled } from "../../support/apps.ts";
import { archiveOf } from "../../support/archives.ts";
import { inChromium } from "../pages/chromium.ts";
import { openConsole, screen, serviceOf } from "./browser.ts";
import { zipOf } from "./zip.ts";

/** Answers with the files that it was deployed with, those that can be run with a star, and links with their targets. */
const APP = `
const fs = require("node:fs");
const shown = (entry) => {
  const path = require("node:path").join(entry.parentPath, entry.name);
  if (entry.isSymbolicLink()) return path + " -> " + fs.readlinkSync(path);
  return path + (fs.statSync(path).mode & 0o100 ? "*" : "");
};
const files = fs.readdirSync(".", { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory());
const list = files.map(shown).sort();
require("node:http").createServer((_, response) => response.end(JSON.stringify(list))).listen(process.env.PORT);
`;
const PACKAGE = '{"name":"web","scripts":{"start":"node server.js"}}';

let base: string;
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "berth-upload-"));
});
afterAll(() => rmSync(base, { recursive: true, force: true }));

function folderOf(name: string, files: Record<string, string>): string {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(base, name, path)), { recursive: true });
    writeFileSync(join(base, name, path), content);
  }
  return join(base, name);
}

/** Drops files and folders of this machine onto the page, as a person does. */
async function drop(page: Page, ...files: string[]): Promise<void> {
  const client = await page.context().newCDPSession(page);
  const data = { items: [], files, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const)
    await client.send("Input.dispatchDragEvent", { type, x: 200, y: 300, data });
}

const deploy = (page: Page) => page.getByRole("dialog").getByRole("button", { name: "Deploy" }).click();

inChromium("the console: uploads", (stage) => {
  const filesAt = async (S: string) => {
    const { url } = await stage.world.must<{ url: string }>("GET", S);
    return JSON.parse((await open(url)).body) as string[];
  };

  test("a folder becomes a new service without what its ignore file names; another is dropped onto it", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    const { page, complaints } = await openConsole(stage, screen(E));
    await page.getByRole("button", { name: "New service" }).click();
    await page.getByLabel("Name").fill("web");
    await page.getByLabel("What runs").selectOption("A folder or an archive");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Upload to web" }).waitFor();
    await page.getByText(/At most \d+ MiB compressed/).waitFor();
    const files = { "server.js": APP, "package.json": PACKAGE, ".env": "KEY=secret" };
    const folder = folderOf("first", {
      ...files,
      ".gitignore": "*.log\n/out/\n",
      "debug.log": "x",
      "out/big": "x",
      "lib/deep/naïve 😀.txt": "x",
      "lib/.gitignore": "!keep.log\n",
      "lib/keep.log": "x",
      "node_modules/left/index.js": "x",
      ".git/config": "x",
    });
    await page.getByLabel("Folder").setInputFiles(folder);
    await page.getByText("7 files, ").waitFor();
    await page.getByText("By the rules of .gitignore").waitFor();
    await page.getByText("Left out: debug.log, node_modules, out").waitFor();
    await page.getByText(".env is sent too.").waitFor();
    await page.getByText("What is sent").click();
    await page.getByRole("listitem").filter({ hasText: "lib/deep/naïve 😀.txt" }).waitFor();
    await deploy(page);
    await page.getByRole("heading", { name: "v1" }).waitFor();
    expect(page.url()).toBe(`${world.origin}${screen(S("web"))}/deployments/1`);
    expect(await settled(world, S("web"), 1)).toMatchObject({ status: "applied" });
    expect(await filesAt(S("web"))).toEqual([
      ".env*",
      ".gitignore*",
      "lib/.gitignore*",
      "lib/deep/naïve 😀.txt*",
      "lib/keep.log*",
      "package.json*",
      "server.js*",
    ]);

    await page.getByRole("link", { name: "All deployments" }).click();
    await page.getByRole("row").filter({ hasText: "v1" }).getByText("live").waitFor();
    await drop(page, folderOf("second", { ...files, ".berthignore": ".env\n", "server.js": `${APP}// 2\n` }));
    await page.getByText("By the rules of .berthignore").waitFor();
    await page.getByText("Left out: .env").waitFor();
    await deploy(page);
    await page.getByRole("heading", { name: "v2" }).waitFor();
    expect(await settled(world, S("web"), 2)).toMatchObject({ status: "applied" });
    expect(await filesAt(S("web"))).toEqual([".berthignore*", "package.json*", "server.js*"]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("a .zip keeps its modes and links, a .tar.gz is sent as it is, and what cannot be sent is said before", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web", { config: { replicas: 1 } });
    const { page, complaints } = await openConsole(stage, screen(S("web")));
    await page.getByRole("button", { name: "Upload a folder" }).click();
    const uploads: string[] = [];
    page.on("request", (request) => request.method() === "PUT" && uploads.push(request.url()));
    const choose = (name: string, buffer: Buffer) =>
      page.getByLabel("Archive").setInputFiles({ name, mimeType: "application/octet-stream", buffer });
    const app = [
      { name: "web-main/" },
      { name: "web-main/server.js", content: APP },
      { name: "web-main/package.json", content: PACKAGE },
    ];
    const valid = zipOf(app);
    for (const [name, buffer, sentence] of [
      ["cut.zip", valid.subarray(0, valid.length - 30), "damaged"],
      ["none.zip", Buffer.from("no archive"), "damaged"],
      ["up.zip", zipOf([...app, { name: "../up", content: "x" }]), "a path that no folder can have: ../up"],
      ["absolute.zip", zipOf([{ name: "/etc/passwd", content: "x" }]), "a path that no folder can have"],
      ["both.zip", zipOf([...app, { name: "web-main/server.js/x", content: "x" }]), "a path that no folder"],
      ["locked.zip", zipOf([{ ...app[1]!, encrypted: true }]), "encrypted"],
      [
        "link.zip",
        zipOf([...app, { name: "web-main/up", content: "../../etc", mode: 0o120777 }]),
        "The link up points outside of the folder",
      ],
      ["ignored.zip", zipOf([{ name: ".gitignore", content: "*" }]), ".gitignore ignores everything"],
      ["plain.tar.gz", Buffer.from("not compressed"), "it is not compressed by gzip"],
    ] as const) {
      await choose(name, buffer);
      await page.getByRole("alert").getByText(new RegExp(sentence)).waitFor();
    }
    // What is damaged where nobody looks before is said when it is packed.
    const damaged = zipOf(app.slice(1));
    damaged.writeUInt32LE(0, 0);
    await choose("inside.zip", damaged);
    await page.getByText("2 files, ").waitFor();
    await deploy(page);
    await page.getByRole("alert").getByText("damaged").waitFor();
    // A file that is longer than the archive says.
    await choose("bomb.zip", zipOf([{ name: "server.js", content: "x".repeat(100_000), size: 10 }]));
    await page.getByText("1 file, ").waitFor();
    await deploy(page);
    await page.getByRole("alert").getByText("server.js changed while it was packed").waitFor();
    expect(uploads).toEqual([]);

    const links = { name: "web-main/link", content: "bin/run", mode: 0o120777 };
    const script = { name: "web-main/bin/run", content: "#!/bin/sh\n", mode: 0o100755 };
    await choose("web.zip", zipOf([...app, script, links, { name: "__MACOSX/x", content: "x" }]));
    await page.getByText("3 files, ").waitFor();
    await deploy(page);
    await page.getByRole("heading", { name: "v1" }).waitFor();
    expect(await settled(world, S("web"), 1)).toMatchObject({ status: "applied" });
    const kept = ["bin/run*", "link -> bin/run", "package.json", "server.js"];
    expect(await filesAt(S("web"))).toEqual(kept);

    await page.getByRole("link", { name: "All deployments" }).click();
    await page.getByRole("row").filter({ hasText: "v1" }).getByText("live").waitFor();
    await page.getByRole("button", { name: "Upload a folder" }).click();
    const tarball = await archiveOf([
      { name: "server.js", content: APP, mode: 0o600 },
      { name: "package.json", content: PACKAGE },
    ]);
    await choose("web.tgz", tarball);
    await page.getByText("web.tgz, ").waitFor();
    await deploy(page);
    await page.getByRole("heading", { name: "v2" }).waitFor();
    expect(await settled(world, S("web"), 2)).toMatchObject({ status: "applied" });
    expect(uploads.length).toBe(2);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("what is uploaded to a staged service is deployed with the environment", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "later", { staged: true, config: { replicas: 1 } });
    const { page, complaints } = await openConsole(stage, screen(S("later")));
    await page.getByRole("button", { name: "Upload a folder" }).click();
    const folder = folderOf("fourth", { "server.js": APP, "package.json": PACKAGE });
    await page.getByLabel("Folder").setInputFiles(folder);
    await deploy(page);
    await page.getByText("It is deployed when what is staged in the environment is applied.").waitFor();
    await page.keyboard.press("Escape");
    await world.must("POST", `${E}/apply`, {});
    await page.getByRole("row").filter({ hasText: "v1" }).getByText("live").waitFor();
    expect(await filesAt(S("later"))).toEqual(["package.json*", "server.js*"]);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  test("closing the dialog ends an upload, and a reader is offered none", async () => {
    const { world } = stage;
    const { E, S } = await world.environment();
    await serviceOf(world, E, "web");
    const { page, complaints } = await openConsole(stage, screen(S("web")));
    await page.getByRole("button", { name: "Upload a folder" }).click();
    await page.getByLabel("Folder").setInputFiles(folderOf("third", { "index.html": "x" }));
    let hold = () => {};
    const held = new Promise<void>((resolve) => {
      hold = resolve;
    });
    await page.route("**/uploads/**", async (route) => {
      await held;
      await route.abort();
    });
    const begun = page.waitForRequest((request) => request.method() === "PUT");
    const ended = page.waitForEvent("requestfailed");
    await deploy(page);
    await begun;
    await page.getByRole("progressbar", { name: "Progress" }).waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await ended;
    hold();
    await page.getByRole("heading", { name: "Never deployed" }).waitFor();
    const { data } = await world.must<{ data: object[] }>("GET", `${S("web")}/deployments`);
    expect(data).toEqual([]);
    expect(complaints.filter((complaint) => !/ERR_/.test(complaint))).toEqual([]);
    await page.context().close();

    const reader = await openConsole(stage, screen(S("web")), { user: await world.member("reader") });
    await reader.page.getByRole("heading", { name: "Never deployed" }).waitFor();
    expect(await reader.page.getByRole("button", { name: "Upload a folder" }).count()).toBe(0);
    expect(reader.complaints).toEqual([]);
    await reader.page.context().close();
  });
});
