import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { makeChart } from "../../release/parts/chart.ts";
import { makeServer } from "../../release/parts/server.ts";
import { readSource } from "../../release/source.ts";

const root = join(import.meta.dirname, "../../..");
export const digests = { berth: `sha256:${"a".repeat(64)}`, "berth-builder": `sha256:${"b".repeat(64)}` };
export const secret = "s3cret-of-the-bucket";

const programs = [
  "helm",
  "systemctl",
  "getent",
  "hostname",
  "uname",
  "df",
  "curl",
  "apparmor_parser",
  "sleep",
];

/** Makes a server of files below a folder, with stand-ins for the programs that would change a real one. */
export async function makeServerFolder() {
  const folder = mkdtempSync(join(tmpdir(), "berth-server-"));
  const at = (...path: string[]) => join(folder, ...path);
  for (const path of [
    "bin",
    "state/chart",
    "files",
    "release/images",
    "root/run",
    "root/var/lib",
    "root/etc",
    "root/usr/local/bin",
    "root/proc/net",
    "root/sys/module/apparmor/parameters",
  ])
    mkdirSync(at(path), { recursive: true });
  for (const path of [...programs.map((name) => `bin/${name}`), "files/k3s"])
    cpSync(join(import.meta.dirname, "stand-in.sh"), at(path));
  mkdirSync(at("files/linux-amd64"));
  cpSync(join(import.meta.dirname, "stand-in.sh"), at("files/linux-amd64/helm"));
  execFileSync("tar", ["-czf", at("files/helm.tar.gz"), "--mtime=@0", "-C", at("files"), "linux-amd64"]);
  writeFileSync(at("files/cert-manager.yaml"), "kind: CustomResourceDefinition\n");
  const write = (path: string, content: string) => writeFileSync(at("root", path), content);
  write("etc/os-release", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n');
  write("proc/meminfo", "MemTotal:        4015000 kB\nMemAvailable:    2015000 kB\n");
  write("proc/cpuinfo", "processor\t: 0\nprocessor\t: 1\n");
  write("proc/net/tcp", "  sl  local_address rem_address   st\n   0: 00000000:0016 00000000:0000 0A 0\n");
  write("sys/module/apparmor/parameters/enabled", "Y\n");

  const source = await readSource(root);
  const chart = await makeChart(source, "ghcr.io/berth-dev", digests, at("release"));
  await makeServer(source, "ghcr.io/berth-dev", chart, at("release"));
  cpSync(at("release", chart), at("state/chart", `berth-${source.version}.tgz`));
  for (const image of Object.keys(digests)) {
    mkdirSync(at("release/images", image));
    writeFileSync(at("release/images", image, "oci-layout"), image);
  }
  execFileSync("tar", [
    "-cf",
    at("bundle.tar"),
    "-C",
    at("release"),
    `--transform=s,^\\.,berth-${source.version},`,
    ".",
  ]);
  // The checksums of the stand-ins, in the place of the real ones.
  const script = at("release/server/berth-server");
  const sum = (path: string) =>
    createHash("sha256")
      .update(readFileSync(at(path)))
      .digest("hex");
  const files: Record<string, string> = {
    k3s: "k3s",
    helm: "helm.tar.gz",
    "cert-manager": "cert-manager.yaml",
  };
  const pinned = readFileSync(script, "utf8").replaceAll(
    /^([a-z0-9-]+) (v\S+) [0-9a-f]{64} /gm,
    (_, name, version) => `${name} ${version} ${sum(`files/${files[name]}`)} `,
  );
  writeFileSync(script, pinned);

  /** Runs berth-server; a group of its own can be killed with all that it started. */
  const server = (args: string[], env: Record<string, string> = {}, input = "") =>
    new Promise<{ status: number | null; out: string; calls: string[] }>((resolve) => {
      rmSync(at("state/calls"), { force: true });
      const given = {
        PATH: `${at("bin")}:/usr/bin:/bin`,
        BERTH_ROOT: at("root"),
        STATE: at("state"),
        BERTH_DIGEST: digests.berth,
        BUILDER_DIGEST: digests["berth-builder"],
        STOP_BY: "fail",
        ...env,
      };
      const child = spawn(script, args, { env: given, detached: true });
      let out = "";
      for (const stream of [child.stdout, child.stderr]) stream.on("data", (part) => (out += part));
      child.stdin.on("error", () => {}).end(input);
      child.on("close", (status) => {
        const calls = existsSync(at("state/calls"))
          ? readFileSync(at("state/calls"), "utf8").trim().split("\n")
          : [];
        resolve({ status, out, calls });
      });
    });

  return {
    at,
    write,
    script,
    server,
    installation: [
      "--domain",
      "berth.example.com",
      "--apps-domain",
      "apps.example.com",
      "--email",
      "you@example.com",
      "--files",
      at("files"),
    ],
    read: (path: string) => readFileSync(at("root", path), "utf8"),
    mode: (path: string) => statSync(at("root", path)).mode & 0o777,
    /** Every file of the server with its content, except what the kernel shows, locks and parts of a killed run. */
    files: () =>
      Object.fromEntries(
        readdirSync(at("root"), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile() && !entry.name.endsWith(".part"))
          .map((entry) => join(entry.parentPath, entry.name))
          .filter((path) => !/^(?:proc|sys|run)\//.test(relative(at("root"), path)))
          .map((path) => [relative(at("root"), path), readFileSync(path, "latin1")]),
      ),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
