import { execFile } from "node:child_process";
import { chmod, cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { V1Secret } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parsePushLogin } from "../../../services/deployer/images/pulls/push-login.ts";
import { keys } from "../../../services/kit/process/config.ts";
import {
  chartFolder,
  ciValues,
  GENERATED,
  helm,
  helmProgram,
  ofKind,
  render,
  renderInstall,
} from "./render.ts";

/** As Argo CD renders: without a cluster, with what it knows of the cluster's version and kinds. */
function renderAsArgo(values: string, ...more: string[]): Promise<string> {
  const kinds = ["apps/v1", "apps/v1/Deployment", "monitoring.coreos.com/v1", "networking.k8s.io/v1/Ingress"];
  return helm(
    ...["template", chartFolder, "--name-template", "berth", "--namespace", "platform", "--include-crds"],
    ...["--kube-version", "1.36.0", ...kinds.flatMap((kind) => ["--api-versions", kind])],
    ...["-f", ciValues(values), ...more],
  );
}

const EVERYTHING = [
  "--set-json",
  'metrics={"from":[{"podSelector":{}}],"serviceMonitor":{"enabled":true},"alerts":{"enabled":true}}',
  "--set-json",
  'backup={"enabled":true,"endpoint":"https://s3.example.com","bucket":"backups","existingSecret":"my-backup"}',
  ...["--set", "uninstall.removeApps=true"],
  ...["--set", "bundledTls.mode=require", "--set", "bundledTls.existingSecret=my-tls"],
];

describe.skipIf(!helmProgram)("rendered without a cluster, as by Argo CD,", () => {
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test.each(["bundled", "external"])(
    "the chart with Secrets of one's own is the same each time: %s",
    async (values) => {
      const more = values === "bundled" ? EVERYTHING : [];
      const [one, other, upgrade] = await Promise.all([
        renderAsArgo(values, ...more),
        renderAsArgo(values, ...more),
        // Flux and others tell an upgrade apart.
        renderAsArgo(values, "--is-upgrade", ...more),
      ]);
      expect(other).toBe(one);
      expect(upgrade).toBe(one);
      expect(one).toContain("kind: Deployment");
    },
  );

  test.each(Object.keys(GENERATED))("it is refused without %s", async (name) => {
    const failure = await render("bundled", { [name]: '""' }).catch(String);
    expect(failure).toContain(`- ${name}: this rendering sees no cluster`);
    expect(failure).toContain(`--set ${name}=berth-own-`);
  });

  test("the commands that the refusal names create every Secret that is needed, with none in an argument", async () => {
    const failure: string = await render("bundled", GENERATED).catch(({ stderr }) => stderr);
    const commands = failure.slice(failure.indexOf("\n\n    {"), failure.indexOf("\n\n    and name them: "));
    const kubectl = '#!/bin/sh\ncat >"$0.$4"\necho "$*" >>"$0.arguments"\n';
    await writeFile(join(folder, "kubectl"), kubectl);
    await chmod(join(folder, "kubectl"), 0o700);
    const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
    await promisify(execFile)("sh", ["-euc", commands], { env });

    const named = /and name them: --set (\S+)/.exec(failure)![1]!;
    const made = new Map<string, Record<string, string>>();
    for (const [value, name] of named.split(",").map((pair) => pair.split("=")))
      made.set(value!, parseEnvFile(await readFile(join(folder, `kubectl.${name}`), "utf8")));
    const used = await readFile(join(folder, "kubectl.arguments"), "utf8");
    expect(used.trim().split("\n")).toHaveLength(made.size);
    for (const line of used.trim().split("\n"))
      expect(line).toMatch(
        /^create secret generic berth-own-[a-z-]+ -n platform( --type=\S+)? --from-env-file=\/dev\/stdin$/,
      );
    expect((await readdir(folder)).length).toBe(made.size + 2);

    const { "encryption-keys": encryption, ...others } = made.get("keys.existingSecret")!;
    expect(encryption).toMatch(/^k1:[A-Za-z0-9+/]{43}=$/);
    for (const name of ["internal-keys", "secret-keys"])
      expect(keys(name).parse(others[name])).toHaveLength(1);
    const login = made.get("registry.existingSecret")![".dockerconfigjson"]!;
    expect(parsePushLogin(login, "berth-registry.platform:5000").user).toBe("berth");
    // Each has exactly the keys that the chart would generate.
    const secrets = ofKind<V1Secret>(await renderInstall("bundled", GENERATED), "Secret");
    const keysOf = (name: string) =>
      Object.keys(secrets.find(({ metadata }) => metadata!.name === name)!.data!).sort();
    const database = [...Object.keys(made.get("database.existingSecret")!), "admin"];
    expect(database.sort()).toEqual(keysOf("berth-database"));
    expect(Object.keys(made.get("database.admin.existingSecret")!)).toEqual(["admin"]);
    for (const [value, name] of [
      ["keys", "berth-keys"],
      ["owner", "berth-owner"],
      ["nats", "berth-nats"],
      ["objectStore", "berth-object-store"],
    ])
      expect(Object.keys(made.get(`${value}.existingSecret`)!).sort()).toEqual(keysOf(name!));
    for (const password of Object.values(made.get("nats.existingSecret")!))
      expect(password).toMatch(/^[a-z][a-z0-9]{40,}$/);

    expect(await renderAsArgo("bundled", "--set", named)).toContain(`name: "berth-own-keys"`);
  });

  test("values that say where all Secrets are need no command", async () => {
    expect(ofKind<V1Secret>(await render("bundled"), "Secret")).toEqual([]);
  });

  test("an installation keeps the Secrets that it generated when these are named", async () => {
    const secrets = ofKind<V1Secret>(await renderInstall("bundled", GENERATED), "Secret");
    const config = secrets.find(({ metadata }) => metadata!.name === "berth-registry-login")!.data!;
    const login = Buffer.from(config[".dockerconfigjson"]!, "base64").toString();
    expect(parsePushLogin(login, "berth-registry.platform:5000").user).toBe("berth");
  });
});

describe.skipIf(!helmProgram)("on a cluster", () => {
  test("an installation without any Secret is not hindered, and generates them", async () => {
    const secrets = ofKind<V1Secret>(await renderInstall("bundled", GENERATED), "Secret");
    expect(secrets.map(({ metadata }) => metadata!.name).sort()).toEqual(
      [
        "database",
        "keys",
        "nats",
        "object-store",
        "owner",
        "registry",
        "registry-login",
        "registry-pull",
      ].map((name) => `berth-${name}`),
    );
  });

  test("a release of an earlier version is upgraded with the values that it had", async () => {
    const folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
    try {
      await cp(chartFolder, folder, { recursive: true });
      await cp(join(import.meta.dirname, "earlier-values.yaml"), join(folder, "values.yaml"));
      const args = ["berth", folder, "-n", "platform", "--kube-version", "1.36.0"];
      expect(await helm("template", ...args, "-f", ciValues("bundled"))).toContain("kind: Deployment");
      expect(await helm("template", ...args, "-f", ciValues("external"))).toContain("kind: Deployment");
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

/** Returns what `kubectl create secret --from-env-file` reads. */
function parseEnvFile(text: string): Record<string, string> {
  const lines = text.trim().split("\n");
  return Object.fromEntries(lines.map((line) => [line.split("=", 1)[0], line.slice(line.indexOf("=") + 1)]));
}
