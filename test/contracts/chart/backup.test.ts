import type { V1CronJob, V1EnvVar, V1NetworkPolicy } from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import { backupFields, restoreFields } from "../../../deploy/backup/config.ts";
import { readConfig } from "../../../services/kit/process/config.ts";
import { GENERATED, helmProgram, type Manifest, ofKind, render, renderInstall } from "./render.ts";

const BACKUP = {
  enabled: true,
  endpoint: "https://s3.example.com",
  bucket: "berth-backups",
  existingSecret: "backup-keys",
};

describe.skipIf(!helmProgram)("backups of the chart", () => {
  let manifests: Manifest[];
  let jobs: Map<string, V1CronJob["spec"]>;

  beforeAll(async () => {
    manifests = await renderInstall("bundled", { ...GENERATED, backup: JSON.stringify(BACKUP) });
    jobs = jobsOf(manifests);
  });

  const jobsOf = (rendered: Manifest[]) =>
    new Map(ofKind<V1CronJob>(rendered, "CronJob").map((one) => [one.metadata!.name!, one.spec]));

  const envOf = (name: string): V1EnvVar[] =>
    jobs.get(name)!.jobTemplate.spec!.template.spec!.containers[0]!.env!;

  /** The environment as the pod has it, with some text for every secret. */
  const filled = (name: string) =>
    Object.fromEntries(
      envOf(name).map(({ name, value }) => [name, value?.replace(/\$\(\w+\)/, "secret") ?? "secret"]),
    );

  test("are made each night when they are wanted, and restored by hand alone", async () => {
    expect(jobs.get("berth-backup")).toMatchObject({ suspend: false, schedule: "0 4 * * *" });
    expect(jobs.get("berth-restore")).toMatchObject({ suspend: true });
    const without = jobsOf(await render("bundled"));
    expect([...without.keys()].sort()).toEqual(["berth-replay", "berth-rotate"]);
  });

  test("get all that their commands read, with credentials from Secrets, and the keys for a restore alone", () => {
    const expected = {
      ...{
        backupBucket: "berth-backups",
        backupPrefix: "berth",
        adminUser: "postgres",
        storeBucket: "berth",
      },
      registryUrl: "http://berth-registry.platform:5000",
      storeEndpoint: "http://berth-object-store.platform:7070",
    };
    expect(readConfig(filled("berth-backup"), backupFields)).toMatchObject({ ...expected, keep: 7 });
    expect(readConfig(filled("berth-restore"), restoreFields)).toMatchObject({
      ...expected,
      from: undefined,
    });
    const given = envOf("berth-backup").filter(({ valueFrom }) => valueFrom);
    expect(given.map(({ name, valueFrom }) => `${name} ${valueFrom!.secretKeyRef!.name}`)).toEqual([
      "ADMIN_PASSWORD berth-database",
      "NATS_PASSWORD berth-nats",
      "BACKUP_S3_ACCESS_KEY backup-keys",
      "BACKUP_S3_SECRET_KEY backup-keys",
      "S3_ACCESS_KEY berth-object-store",
      "S3_SECRET_KEY berth-object-store",
      "REGISTRY_PASSWORD berth-registry",
    ]);
    expect(JSON.stringify(jobs.get("berth-restore"))).toContain("berth-keys");
  });

  test("use the login that the operator gave to the registry", async () => {
    const given = jobsOf(await render("bundled", { backup: JSON.stringify(BACKUP) }));
    for (const name of ["berth-backup", "berth-restore"]) {
      const { containers, volumes } = given.get(name)!.jobTemplate.spec!.template.spec!;
      const { env, volumeMounts } = containers[0]!;
      expect(env!.map(({ name }) => name)).not.toContain("REGISTRY_PASSWORD");
      const file = env!.find(({ name }) => name === "REGISTRY_AUTH")!.value!;
      const mount = volumeMounts!.find(({ mountPath }) => file.startsWith(`${mountPath}/`));
      const { secret } = volumes!.find(({ name }) => name === mount!.name)!;
      expect(secret!.secretName).toBe("my-registry");
      expect(`${mount!.mountPath}/${secret!.items![0]!.path}`).toBe(file);
    }
  });

  test("reach the bundled servers and their bucket, and nothing else", () => {
    const policies = new Map(
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy").map((one) => [one.metadata!.name, one.spec!]),
    );
    const ports = policies
      .get("berth-backup")!
      .egress!.flatMap((rule) => rule.ports!.map(({ port }) => port));
    expect(ports).toEqual([5432, 4222, 7070, 5000, 443]);
    for (const server of ["postgres", "nats", "object-store"])
      expect(JSON.stringify(policies.get(`berth-${server}`)!.ingress)).toContain('"backup"');
  });

  test.each([
    ["without a bucket", "bundled", { ...BACKUP, bucket: "" }, "backup.bucket: required for backups"],
    ["of a database of one's own", "external", BACKUP, "backup.enabled: you use your own database"],
    ["of which none is kept", "bundled", { ...BACKUP, keep: 0 }, "/backup/keep"],
  ])("%s are refused", async (_, values, backup, sentence) => {
    await expect(render(values, { backup: JSON.stringify(backup) })).rejects.toThrow(sentence);
  });
});
