import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { run, timed } from "../commands.ts";
import { withLock } from "../lock.ts";
import {
  folders,
  withAcme,
  withBuildpacks,
  withCloudNativePg,
  withEarlierCloudNativePg,
} from "../settings.ts";

const kubernetes = { version: "1.36.3", major: "1", minor: "36" };

/** Without these every component reports v0.0.0-master, which charts that require a version refuse. */
const kubernetesStamps = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((path) => [
  `${path}.gitVersion=v${kubernetes.version}`,
  `${path}.gitMajor=${kubernetes.major}`,
  `${path}.gitMinor=${kubernetes.minor}`,
  `${path}.gitTreeState=clean`,
  `${path}.gitCommit=none`,
  `${path}.buildDate=1970-01-01T00:00:00Z`,
]);

/** The cluster version that `helm template` and `helm lint` assume. */
const helmStamps = [
  ...["pkg/lint/rules", "pkg/chartutil"].flatMap((path) => [
    `helm.sh/helm/v3/${path}.k8sVersionMajor=${kubernetes.major}`,
    `helm.sh/helm/v3/${path}.k8sVersionMinor=${kubernetes.minor}`,
  ]),
  "helm.sh/helm/v3/internal/version.version=v3.21.4",
];

/**
 * Programs by the folder of their module under `go/`, the slowest to build first, after those that `npm test`
 * waits for; `tool`: one that the module names.
 */
const modules = {
  hydra: { tool: true },
  "stripe-mock": { tool: true },
  registry: { stamps: ["github.com/distribution/distribution/v3/version.version=v3.0.0"] },
  kubernetes: { stamps: kubernetesStamps },
  helm: { stamps: helmStamps, tool: true },
  lifecycle: { tool: true },
  versitygw: { tool: true },
  coredns: {},
  "network-policy": {},
  "local-path-provisioner": { tool: true },
  "nats-server": { tool: true },
  launcher: { tool: true },
  pause: {},
  "cert-manager": { tool: true },
  acmesolver: { tool: true },
  pebble: { tool: true },
  "cloudnative-pg": { tool: true },
  "cloudnative-pg-earlier": { tool: true },
  "plugin-barman-cloud": { tool: true },
  actionlint: { tool: true },
  "helm-4": { tool: true },
} satisfies Record<string, Module>;

type Module = { stamps?: string[]; tool?: boolean };
export type Program = keyof typeof modules;
const left: Program[] = [
  // Only tests outside of the cluster need them, and build them.
  "actionlint",
  "helm-4",
  ...(withBuildpacks ? [] : (["lifecycle", "launcher"] as const)),
  ...(withAcme ? [] : (["cert-manager", "acmesolver", "pebble"] as const)),
  ...(withCloudNativePg ? [] : (["cloudnative-pg", "plugin-barman-cloud"] as const)),
  ...(withEarlierCloudNativePg ? [] : (["cloudnative-pg-earlier"] as const)),
];
export const programs = (Object.keys(modules) as Program[]).filter((name) => !left.includes(name));

const sources = join(import.meta.dirname, "../go");
const flags = ["-trimpath", "-mod=readonly", "-buildvcs=false"];
const linked = (module: Module) =>
  ["-s", "-w", ...(module.stamps ?? []).map((stamp) => `-X ${stamp}`)].join(" ");

/** Returns the path of a program once it is built: its name contains a hash of its sources and flags. */
export async function programPath(name: Program): Promise<string> {
  const dir = join(sources, name);
  const hash = createHash("sha256").update([...flags, linked(modules[name])].join(" "));
  for (const file of (await readdir(dir)).sort()) hash.update(file).update(await readFile(join(dir, file)));
  return join(folders.programs, `${name}-${hash.digest("hex").slice(0, 16)}`);
}

/** Builds the missing programs one after another: each build uses all cores. Another process may build others. */
export async function buildPrograms(
  names: readonly Program[] = programs,
  options: { signal?: AbortSignal } = {},
): Promise<void> {
  for (const name of names) {
    const path = await programPath(name);
    if (existsSync(path)) continue;
    await withLock(join(folders.programs, "locks", name), async () => {
      if (!existsSync(path)) await timed(`Built ${name}`, () => build(name, path, options));
    });
  }
}

async function build(name: Program, path: string, options: { signal?: AbortSignal }): Promise<void> {
  const module: Module = modules[name];
  const unfinished = `${path}.${process.pid}`;
  // The tool itself names its file, so it is built into a folder.
  const output = module.tool ? `${unfinished}/` : unfinished;
  const env = { ...process.env, CGO_ENABLED: "0", GOFLAGS: "", GOTOOLCHAIN: "local", GOWORK: "off" };
  try {
    const target = module.tool ? "tool" : ".";
    // Whatever else runs meanwhile goes first.
    const command = ["-n", "15", "go", "build", ...flags, "-ldflags", linked(module), "-o", output, target];
    await run("nice", command, { cwd: join(sources, name), env, ...options });
    const built = module.tool ? join(unfinished, (await readdir(unfinished))[0]!) : unfinished;
    await rename(built, path);
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}
