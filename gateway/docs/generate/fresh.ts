import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

// Fails when what is generated from the protos is not what is committed.
const root = resolve(import.meta.dirname, "../../..");
const run = (file: string, args: string[]) => execFileSync(file, args, { cwd: root, stdio: "inherit" });
const fresh = mkdtempSync(join(tmpdir(), "berth-gen-"));
try {
  run("buf", ["generate", "-o", fresh]);
  run("git", [
    "diff",
    "--no-index",
    "--exit-code",
    "--stat",
    join(root, "proto/gen"),
    join(fresh, "proto/gen"),
  ]);
  run(process.execPath, ["gateway/docs/generate/openapi.ts", "--check"]);
} catch {
  process.stderr.write("Generated files are stale: run `npm run generate` and commit what changes.\n");
  process.exitCode = 1;
} finally {
  rmSync(fresh, { recursive: true });
}
