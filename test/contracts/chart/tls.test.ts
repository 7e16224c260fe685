import { execFile } from "node:child_process";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { V1Job, V1Secret, V1StatefulSet } from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import {
  chartFolder,
  configOf,
  GENERATED,
  helmProgram,
  type Manifest,
  ofKind,
  podsOf,
  render,
  renderInstall,
} from "./render.ts";

const GIVEN = { "bundledTls.mode": '"require"', "bundledTls.existingSecret": '"my-tls"' };

describe.skipIf(!helmProgram)("TLS to the bundled servers", () => {
  let on: Manifest[];

  beforeAll(async () => {
    on = await render("bundled", GIVEN);
  });

  test("is off unless it is chosen", async () => {
    const off = JSON.stringify(await render("bundled"));
    expect(off).not.toMatch(/servers-ca|certificate\/|sslmode|tls:\/\/|hostssl|ssl=on/);
  });

  test("is what every process asks for, with the authority that vouches for the servers", () => {
    const asking: string[] = [];
    for (const { name, spec } of podsOf(on))
      for (const { env, envFrom, volumeMounts, name: container } of [
        ...(spec.initContainers ?? []),
        ...spec.containers,
      ]) {
        const configs = (envFrom ?? []).map(({ configMapRef }) => configOf(on, configMapRef!.name!));
        const texts = [...(env ?? []).map(({ value }) => value ?? ""), ...configs.flatMap(Object.values)];
        const servers = texts.filter((text) => /berth-(postgres|nats):/.test(text));
        if (servers.length === 0 || name.startsWith("Pod/")) continue;
        asking.push(`${name} ${container}`);
        for (const server of servers)
          expect(server).toMatch(
            /^postgres:.*\?sslmode=verify-full&sslrootcert=\/etc\/berth\/servers-ca\/ca\.crt$|^tls:.*\?ca=\/etc\/berth\/servers-ca\/ca\.crt$/,
          );
        const mount = volumeMounts!.find(({ mountPath }) => mountPath === "/etc/berth/servers-ca");
        expect(spec.volumes!.find(({ name }) => name === mount?.name)?.secret).toEqual({
          secretName: "my-tls",
          items: [{ key: "ca.crt", path: "ca.crt" }],
        });
      }
    expect(asking.sort()).toEqual(
      [
        "CronJob/berth-replay replay",
        "CronJob/berth-rotate rotate",
        ...["billing", "deployer", "gateway", "identity", "notifications", "variables"].flatMap((name) => [
          `Deployment/berth-${name} ${name}`,
          `Deployment/berth-${name} database`,
        ]),
        expect.stringMatching(/^Job\/berth-prepare-[0-9a-f]{8} prepare$/),
      ].toSorted((one, other) => String(one).localeCompare(String(other))) as never,
    );
  });

  test("is of backups too", async () => {
    const backup = {
      "backup.enabled": "true",
      "backup.endpoint": '"https://s3.example.com"',
      "backup.bucket": '"backups"',
      "backup.existingSecret": '"my-backup"',
    };
    const pods = podsOf(await render("bundled", { ...GIVEN, ...backup }));
    for (const command of ["backup", "restore"]) {
      const { volumes, containers } = pods.find(({ name }) => name === `CronJob/berth-${command}`)!.spec;
      const text = JSON.stringify(containers);
      expect(text).toContain("sslmode=verify-full");
      expect(text).toContain("tls://operator:");
      expect(text).toContain('"mountPath":"/etc/berth/servers-ca"');
      expect(JSON.stringify(volumes)).toContain('"secretName":"my-tls"');
    }
  });

  test("keeps the key from all but the two servers", () => {
    const holders = podsOf(on).filter(({ spec }) => JSON.stringify(spec.volumes ?? []).includes("tls.key"));
    expect(holders.map(({ name }) => name).sort()).toEqual([
      "StatefulSet/berth-nats",
      "StatefulSet/berth-postgres",
    ]);
  });

  test("has a generated certificate for the names of both servers, which later upgrades keep until it is renewed", async () => {
    const set = { ...GENERATED, "bundledTls.mode": '"allow"' };
    const secretIn = (manifests: Manifest[]) =>
      ofKind<V1Secret>(manifests, "Secret").find(({ metadata }) => metadata!.name === "berth-tls")!;
    const made = secretIn(await renderInstall("bundled", set));
    const text = (key: string) => Buffer.from(made.data![key]!, "base64").toString();
    const [authority, certificate] = [
      new X509Certificate(text("ca.crt")),
      new X509Certificate(text("tls.crt")),
    ];
    expect(certificate.verify(authority.publicKey)).toBe(true);
    expect(certificate.ca).toBe(false);
    for (const server of ["postgres", "nats"])
      for (const name of [`berth-${server}`, `berth-${server}.platform`, `berth-${server}.platform.svc`])
        expect(certificate.checkHost(name)).toBe(name);
    const years = (certificate.validToDate.getTime() - Date.now()) / (365 * 24 * 3_600_000);
    expect(Math.round(years)).toBe(10);
    const due = (Number(text("renew-after")) * 1_000 - Date.now()) / (365 * 24 * 3_600_000);
    expect(Math.round(due)).toBe(5);

    const again = (data: Record<string, string>) =>
      renderInstall("bundled", set, [{ ...made, data } as V1Secret]).then(secretIn);
    expect((await again(made.data!)).data).toEqual(made.data);
    const past = Buffer.from("1700000000").toString("base64");
    for (const data of [
      { ...made.data!, "renew-after": past },
      { ...made.data!, "tls.key": "" },
    ])
      expect((await again(data)).data!["tls.crt"]).not.toBe(made.data!["tls.crt"]);
  });

  test("does not hinder an upgrade that turns it on or off: the hook meets the server of the release before", async () => {
    const hookBeside = async (set: Record<string, string>, annotations: Record<string, string>) => {
      const metadata = { name: "berth-postgres", namespace: "platform", annotations };
      const server = { apiVersion: "apps/v1", kind: "StatefulSet", metadata };
      const manifests = await renderInstall("bundled", set, [server]);
      const hook = ofKind<V1Job>(manifests, "Job").find(
        ({ metadata }) => metadata!.annotations?.["helm.sh/hook"],
      )!;
      return JSON.stringify(hook.spec!.template.spec);
    };
    const before = await hookBeside(GIVEN, {});
    expect(before).toContain('"postgres://berth-postgres:5432/"');
    expect(before).not.toContain("my-tls");
    const { metadata } = ofKind<V1StatefulSet>(on, "StatefulSet").find(
      ({ metadata }) => metadata!.name === "berth-postgres",
    )!;
    for (const set of [GIVEN, {}, { ...GIVEN, "bundledTls.existingSecret": '"other"' }]) {
      const after = await hookBeside(set, metadata!.annotations!);
      expect(after).toContain("sslmode=verify-full");
      expect(after).toContain('"secretName":"my-tls"');
    }
  });

  test("has the certificate of cert-manager with the values of the documentation", async () => {
    const page = await readFile(join(chartFolder, "../..", "docs/operations.md"), "utf8");
    const values = /```yaml\n(bundledTls:.+?)```/s.exec(page)![1]!;
    const folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
    try {
      const file = join(folder, "values.yaml");
      await writeFile(file, values);
      const manifests = await render("bundled", {}, "-f", file);
      const [{ spec }] = ofKind(manifests, "Certificate") as unknown as [
        { spec: { secretName: string; dnsNames: string[] } },
      ];
      expect(spec.dnsNames).toEqual(["berth-postgres", "berth-nats"]);
      const { volumes } = podsOf(manifests).find(({ name }) => name === "StatefulSet/berth-nats")!.spec;
      expect(volumes!.find(({ name }) => name === "certificate")!.secret!.secretName).toBe(spec.secretName);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  test("is refused without a cluster, with a command that creates a certificate which vouches for itself", async () => {
    const failure: string = await render("bundled", { "bundledTls.mode": '"allow"' }).catch(
      ({ stderr }) => stderr,
    );
    expect(failure).toContain("- bundledTls.existingSecret: this rendering sees no cluster");
    expect(failure).toContain("--set bundledTls.existingSecret=berth-own-tls");
    const command = /\n\n {4}(folder=.+?)\n\n/s.exec(failure)![1]!;
    const folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
    try {
      const kubectl = `#!/bin/sh
for one; do
  file=$(echo "$one" | sed -n "s/^--from-file=//p")
  case $file in
    "") ;;
    ca.crt=*) cp "$(echo "$file" | sed "s/^ca.crt=//")" "$0.made/ca.crt" ;;
    *) cp "$file" "$0.made/" ;;
  esac
done
`;
      await writeFile(join(folder, "kubectl"), kubectl, { mode: 0o700 });
      await mkdir(join(folder, "kubectl.made"));
      const env = { ...process.env, PATH: `${folder}:${process.env.PATH}`, TMPDIR: folder };
      await promisify(execFile)("sh", ["-euc", command], { env });
      const read = (name: string) => readFile(join(folder, "kubectl.made", name), "utf8");
      const certificate = new X509Certificate(await read("tls.crt"));
      expect(certificate.checkPrivateKey(createPrivateKey(await read("tls.key")))).toBe(true);
      expect(certificate.verify(new X509Certificate(await read("ca.crt")).publicKey)).toBe(true);
      for (const name of ["berth-postgres", "berth-nats"]) expect(certificate.checkHost(name)).toBe(name);
      // The key stays in the Secret alone.
      expect((await readdir(folder)).sort()).toEqual(["kubectl", "kubectl.made"]);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  test("is refused where no bundled server is", async () => {
    expect(await render("external", { "bundledTls.mode": '"require"' }).catch(String)).toContain(
      "bundledTls.mode: there is no bundled PostgreSQL or NATS",
    );
  });
});
