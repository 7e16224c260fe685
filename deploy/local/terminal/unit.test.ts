import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findOnPath } from "../../../test/support/on-path.ts";
import { projectDir } from "./options.ts";

const run = promisify(execFile);
const verifier = findOnPath("systemd-analyze");
if (!verifier) console.log("Skipped: systemd checks the printed unit. There is no systemd-analyze here.");

test.skipIf(!verifier)("--print-unit prints a unit that systemd accepts, also with odd names", async () => {
  const dir = await mkdtemp(join(tmpdir(), "berth-unit-"));
  const odd = join(dir, `it's 100% "$odd"`);
  const main = join(projectDir, "deploy/local/main.ts");
  const options = ["--data", odd, "--port", "4100", "--public-url", "https://berth.example.com"];
  const { stdout } = await run(process.execPath, [main, "--print-unit", ...options]);
  const file = join(dir, "berth.service");
  await writeFile(file, stdout);
  const { stderr } = await run(verifier!, ["verify", file]);
  expect(stderr.split("\n").filter((line) => line.includes("berth.service"))).toEqual([]);
  const written = String.raw`"${dir}/it's 100%% \\"$$odd\\""`.replaceAll("\\\\", "\\");
  const rest = "--port 4100 --public-url https://berth.example.com";
  expect(stdout).toContain(`\nExecStart=${process.execPath} ${main} --data ${written} ${rest}\n`);
  await rm(dir, { recursive: true });
});
