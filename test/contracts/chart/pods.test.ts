import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type {
  V1ConfigMap,
  V1Deployment,
  V1ReplicaSet,
  V1Role,
  V1Secret,
  V1ServiceAccount,
} from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import { programs } from "../../../deploy/local/programs/programs.ts";
import {
  chartFolder,
  GENERATED,
  helmProgram,
  type Manifest,
  ofKind,
  podsOf,
  readDeployerConfig,
  render,
  renderInstall,
} from "./render.ts";

/** The pod of a test whose image is one of the bundled registry that does not exist. */
const TRIES_A_PULL = "ReplicaSet/berth-test-pulls";
const MISSING_IMAGE = "localhost:30500/apps/test:none";

describe.skipIf(!helmProgram)("the pods of the chart", () => {
  let bundled: Manifest[];
  let external: Manifest[];
  let generated: Manifest[];

  beforeAll(async () => {
    [bundled, external, generated] = await Promise.all([
      render("bundled"),
      render("external"),
      renderInstall("bundled", GENERATED),
    ]);
  });

  test("every pod is restricted", () => {
    const pods = podsOf([...bundled, ...external, ...generated]);
    expect(pods.length).toBeGreaterThan(12);
    for (const { name, spec } of pods) {
      const { runAsNonRoot, runAsUser, seccompProfile } = spec.securityContext ?? {};
      expect({ name, runAsNonRoot, seccompProfile }).toEqual({
        name,
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      });
      expect(runAsUser).toBeGreaterThan(0);
      expect([name, spec.hostNetwork, spec.hostPID, spec.hostIPC]).toEqual([
        name,
        undefined,
        undefined,
        undefined,
      ]);
      expect((spec.volumes ?? []).filter((volume) => volume.hostPath)).toEqual([]);
      for (const container of [...(spec.initContainers ?? []), ...spec.containers]) {
        expect([name, container.securityContext]).toEqual([
          name,
          { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
        ]);
        expect([name, container.resources?.requests, container.resources?.limits?.memory]).toEqual([
          name,
          expect.objectContaining({ cpu: expect.anything(), memory: expect.anything() }),
          expect.anything(),
        ]);
      }
    }
  });

  test("the deployer alone has a token of the cluster, and the tests of builds and pulls", async () => {
    const withToken = podsOf([...bundled, ...external]).filter(
      ({ spec }) => spec.automountServiceAccountToken !== false,
    );
    expect(new Set(withToken.map(({ name }) => name))).toEqual(
      new Set(["Deployment/berth-deployer", "Pod/berth-test-builds", "Pod/berth-test-pulls"]),
    );
    const removing = podsOf(await render("bundled", { "uninstall.removeApps": "true" }));
    const used = removing.flatMap(({ name, spec }) => (spec.automountServiceAccountToken ? [name] : []));
    expect(used.sort()).toEqual([
      "Deployment/berth-deployer",
      "Job/berth-remove-apps",
      "Pod/berth-test-builds",
      "Pod/berth-test-pulls",
    ]);
    const roles = [...ofKind<Manifest>(bundled, "ClusterRole"), ...ofKind<Manifest>(bundled, "Role")];
    for (const role of roles) expect(JSON.stringify(role)).not.toContain('"*"');
  });

  test("every process has an account of its own", () => {
    for (const manifests of [bundled, external]) {
      const accounts = ofKind<V1ServiceAccount>(manifests, "ServiceAccount").filter(
        ({ metadata }) => !metadata!.annotations?.["helm.sh/hook"],
      );
      for (const one of accounts)
        expect([one.metadata!.name, one.automountServiceAccountToken]).toEqual([one.metadata!.name, false]);
      const used = ofKind<V1Deployment>(manifests, "Deployment").map(({ metadata, spec }) => [
        metadata!.name,
        spec!.template.spec!.serviceAccountName,
      ]);
      expect(used).toEqual(used.map(([name]) => [name, name]));
      expect(accounts.map(({ metadata }) => metadata!.name).sort()).toEqual(
        used.map(([name]) => name).sort(),
      );
    }
  });

  test("a process gets more environment and volumes, of all or of its own", async () => {
    const manifests = await render("bundled", {
      "defaults.extraEnvFrom": '[{"secretRef":{"name":"more"}}]',
      "processes.billing.extraVolumes": '[{"name":"own","configMap":{"name":"own"}}]',
      "processes.billing.extraVolumeMounts": '[{"name":"own","mountPath":"/own"}]',
    });
    for (const { metadata, spec } of ofKind<V1Deployment>(manifests, "Deployment")) {
      const { containers, volumes } = spec!.template.spec!;
      const { name = "" } = metadata!;
      expect(containers[0]!.envFrom).toEqual([{ configMapRef: { name } }, { secretRef: { name: "more" } }]);
      const own = [
        volumes!.some((one) => one.configMap?.name === "own"),
        containers[0]!.volumeMounts!.some((one) => one.mountPath === "/own"),
      ];
      expect([name, ...own]).toEqual([name, name === "berth-billing", name === "berth-billing"]);
    }
  });

  test("objects of the operator's own are part of the release, as they are or as templates", async () => {
    const about = { apiVersion: "v1", kind: "ConfigMap" };
    const objects = [
      { ...about, metadata: { name: "plain" } },
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include "berth.fullname" . }}-more}',
    ];
    const manifests = await render("bundled", { extraObjects: JSON.stringify(objects) });
    const names = ofKind<V1ConfigMap>(manifests, "ConfigMap").map(({ metadata }) => metadata!.name);
    expect(names).toEqual(expect.arrayContaining(["plain", "berth-more"]));
  });

  test("what is secret stands in Secrets only", () => {
    const values = ofKind<V1Secret>(generated, "Secret").flatMap((one) => Object.values(one.data ?? {}));
    const secrets = values.flatMap((value) => [value, Buffer.from(value, "base64").toString()]);
    expect(secrets.length).toBeGreaterThan(20);
    const others = JSON.stringify(generated.filter((one) => one.kind !== "Secret"));
    for (const secret of secrets) expect(others.includes(secret)).toBe(false);
  });

  test("a release with Secrets of one's own makes none, and names only those", () => {
    const made = ofKind<V1Secret>(external, "Secret").filter((one) => Object.keys(one.data ?? {}).length > 0);
    expect(made).toEqual([]);
    const named = [...JSON.stringify(external).matchAll(/"secretKeyRef":\{[^}]*"name":"([^"]+)"/g)].map(
      (m) => m[1],
    );
    expect(new Set(named)).toEqual(
      new Set([
        "my-owner",
        "my-mail",
        "my-stripe",
        "my-loki",
        "my-keys",
        "my-roles",
        "my-admin",
        "my-nats",
        "my-s3",
      ]),
    );
  });

  test("Secrets that data needs are kept when the release goes", () => {
    const kept = ofKind<V1Secret>(generated, "Secret").filter(
      (one) => one.metadata!.annotations?.["helm.sh/resource-policy"] === "keep",
    );
    expect(kept.map((one) => one.metadata!.name).sort()).toEqual([
      "berth-database",
      "berth-keys",
      "berth-owner",
    ]);
  });

  test("what a first installation generates stays until it has succeeded, so that another attempt takes the same", async () => {
    const made = await renderInstall("external", {
      ...{ keys: "{}", "database.existingSecret": '""', "apps.ingress.className": '""' },
    });
    const copies = ofKind<V1Secret>(made, "Secret").filter((one) => one.metadata!.name === "berth-prepare");
    const shown = copies.map(({ metadata, data }) => {
      const { "helm.sh/hook": hook, "helm.sh/hook-delete-policy": policy } = metadata!.annotations!;
      return [hook, policy, Object.keys(data ?? {}).sort()];
    });
    expect(shown).toEqual([
      [
        "pre-install,pre-upgrade,pre-rollback",
        // Not hook-succeeded: helm would remove it when a later hook of the same event fails.
        "before-hook-creation",
        [...programs.map(({ name }) => name), "encryption-keys"].sort(),
      ],
      ["post-install,post-upgrade,post-rollback", "before-hook-creation,hook-succeeded", []],
    ]);
    const kept = ofKind<V1Secret>(made, "Secret").find((one) => one.metadata!.name === "berth-keys");
    expect(kept!.data!["encryption-keys"]).toBe(copies[0]!.data!["encryption-keys"]);
  });

  test("every image can be another", async () => {
    const image = '{"repository":"mirror.test/x","tag":"1"}';
    const set: Record<string, string> = { image, "builds.image": image };
    for (const part of ["database", "nats", "objectStore", "registry"]) set[`${part}.server.image`] = image;
    for (const name of ["postgresImage", "redisImage"]) set[`apps.addons.${name}`] = '"mirror.test/x:1"';
    set["builds.baseImages"] =
      '{"node":"mirror.test/n","python":"mirror.test/p","go":"mirror.test/g","static":"mirror.test/s"}';
    const manifests = await render("bundled", set);
    for (const { name, spec } of podsOf(manifests))
      for (const container of [...(spec.initContainers ?? []), ...spec.containers])
        expect(container.image).toBe(name === TRIES_A_PULL ? MISSING_IMAGE : "mirror.test/x:1");
    expect(JSON.stringify(manifests)).not.toContain("docker.io");
  });

  test("the page for clusters without internet names every image, and with its values none is from outside", async () => {
    const page = await readFile(join(chartFolder, "../..", "docs/offline.md"), "utf8");
    const folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
    try {
      const file = join(folder, "values.yaml");
      await writeFile(file, /```yaml\n(.+?)```/s.exec(page)![1]!);
      const manifests = JSON.stringify(await render("bundled", {}, "-f", file));
      expect(manifests).not.toMatch(/docker\.io|registry\.example\.com\/berth/);
      expect(manifests).toContain("registry.example.com/mirror/versitygw:v1.7.0");
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const fromOutside = JSON.stringify(bundled).matchAll(/docker\.io\/([a-z]+\/[a-z]+:[a-z0-9.@:-]+)/g);
    const names = new Set([...fromOutside].map(([, name]) => name!));
    expect(names.size).toBe(8);
    const table = page.slice(page.indexOf("| image |"), page.indexOf("```sh"));
    for (const name of names) {
      expect(page.split("\n")).toContain(name);
      expect(table).toContain(name.split("/")[1]!.split("@")[0]);
    }
  });

  test("the test of pulls is where the bundled registry is, and may only list pods", async () => {
    const parts = (manifests: Manifest[]) =>
      manifests
        .filter(({ metadata }) => metadata!.name === "berth-test-pulls")
        .map(({ kind }) => kind)
        .sort();
    expect(parts(bundled)).toEqual(
      ["NetworkPolicy", "Pod", "ReplicaSet", "Role", "RoleBinding", "ServiceAccount"].sort(),
    );
    expect(parts(external)).toEqual([]);
    const role = ofKind<V1Role>(bundled, "Role").find(
      ({ metadata }) => metadata!.name === "berth-test-pulls",
    );
    expect(role!.rules).toEqual([{ apiGroups: [""], resources: ["pods"], verbs: ["list"] }]);
    const named = await render("bundled", { "registry.pull": '"registry.internal:30500"' });
    const { containers } = podsOf(named).find(({ name }) => name === TRIES_A_PULL)!.spec;
    expect(containers[0]!.image).toBe("registry.internal:30500/apps/test:none");
    const { env } = podsOf(named).find(({ name }) => name === "Pod/berth-test-pulls")!.spec.containers[0]!;
    const given = Object.fromEntries(env!.map(({ name, value }) => [name, value!]));
    expect(given.PULL_HOST).toBe("registry.internal:30500");
    const pod = named.find(
      ({ metadata, kind }) => kind === "ReplicaSet" && metadata!.name === "berth-test-pulls",
    );
    const { labels } = (pod as unknown as V1ReplicaSet).spec!.template!.metadata!;
    for (const label of given.POD_LABELS!.split(",")) {
      const [name, value] = label.split("=");
      expect(labels![name!]).toBe(value);
    }
  });

  test("every image of the bundled servers and addons has a digest, which another tag or digest replaces", async () => {
    const outside = [...JSON.stringify(bundled).matchAll(/docker\.io\/[a-z]+\/([a-z]+):[a-zA-Z0-9.@:-]+/g)];
    const floating = outside.filter(([image]) => !/:[a-z0-9.-]+@sha256:[0-9a-f]{64}$/.test(image));
    // A build takes the newest release of its language, with its security updates.
    expect(new Set(floating.map(([, name]) => name))).toEqual(new Set(["golang", "node", "python"]));
    expect(new Set(outside.map(([, name]) => name)).size).toBe(8);
    const digest = `sha256:${"a".repeat(64)}`;
    const imageOf = async (set: Record<string, string>) =>
      podsOf(await render("bundled", set)).find(({ name }) => name === "StatefulSet/berth-nats")!.spec
        .containers[0]!.image;
    expect(await imageOf({ "nats.server.image.tag": '"2.13.0"' })).toBe("docker.io/library/nats:2.13.0");
    expect(await imageOf({ "nats.server.image.digest": `"${digest}"` })).toBe(
      `docker.io/library/nats@${digest}`,
    );
  });

  test("every image can be named by its digest", async () => {
    const digest = `sha256:${"a".repeat(64)}`;
    const image = JSON.stringify({ repository: "mirror.test/x", tag: "1", digest });
    const set: Record<string, string> = { image, "builds.image": image };
    for (const part of ["database", "nats", "objectStore", "registry"]) set[`${part}.server.image`] = image;
    const text = `"mirror.test/y:18.1@${digest}"`;
    for (const name of ["addons.postgresImage", "addons.redisImage"]) set[`apps.${name}`] = text;
    set["builds.baseImages"] = `{"node":${text},"python":${text},"go":${text},"static":${text}}`;
    set["builds.buildpacks"] = `{"builder":${text},"runImage":${text}}`;
    const manifests = await render("bundled", set);
    for (const { name, spec } of podsOf(manifests))
      for (const container of [...(spec.initContainers ?? []), ...spec.containers])
        expect(container.image).toBe(name === TRIES_A_PULL ? MISSING_IMAGE : `mirror.test/x@${digest}`);
    const { addonImages, builderImage, builderBaseImages, buildpacksBuilder, buildpacksRunImage } =
      readDeployerConfig(manifests);
    const named = [...Object.values(addonImages), ...Object.values(builderBaseImages)];
    for (const one of [builderImage, buildpacksBuilder, buildpacksRunImage, ...named])
      expect(one).toMatch(/^mirror\.test\/.+@sha256:a{64}$/);
  });

  test("the images of buildpacks reach the deployer where they are chosen", async () => {
    const set = { "builds.buildpacks": '{"builder":"mirror.test/builder:1","runImage":"mirror.test/run:1"}' };
    const chosen = JSON.stringify(await render("bundled", set));
    expect(chosen).toMatch(/BUILDPACKS_BUILDER[^}]*mirror\.test\/builder:1/);
    expect(chosen).toMatch(/BUILDPACKS_RUN_IMAGE[^}]*mirror\.test\/run:1/);
    expect(JSON.stringify(bundled)).not.toContain("BUILDPACKS_");
  });

  test("a roll-out takes no pod away before another is ready, and lets requests end", () => {
    for (const deployment of ofKind<V1Deployment>([...bundled, ...external], "Deployment")) {
      expect(deployment.spec!.strategy!.rollingUpdate).toEqual({ maxUnavailable: 0, maxSurge: 1 });
      const { containers, terminationGracePeriodSeconds } = deployment.spec!.template.spec!;
      const drain = containers[0]!.lifecycle!.preStop!.sleep!.seconds;
      expect(terminationGracePeriodSeconds).toBeGreaterThan(drain + 10);
      expect(
        containers[0]!.startupProbe && containers[0]!.readinessProbe && containers[0]!.livenessProbe,
      ).toBeTruthy();
      expect(Object.keys(deployment.spec!.template.metadata!.annotations!)).toEqual(
        expect.arrayContaining(["checksum/config", "checksum/secrets"]),
      );
    }
  });

  test("another configuration rolls the process it concerns, and no other", async () => {
    const checksums = (manifests: Manifest[]) =>
      ofKind<V1Deployment>(manifests, "Deployment").map(
        (one) => one.spec!.template.metadata!.annotations!["checksum/config"],
      );
    const before = checksums(bundled);
    const after = checksums(await render("bundled", { "rateLimits.reads": "7" }));
    expect(after.map((sum, i) => sum !== before[i])).toEqual(
      ofKind<V1Deployment>(bundled, "Deployment").map((one) => one.metadata!.name === "berth-gateway"),
    );
  });

  test("autoscaling takes the number of replicas out of the chart's hands, but for the deployer's", () => {
    for (const { metadata, spec } of ofKind<V1Deployment>(external, "Deployment"))
      expect([metadata!.name, spec!.replicas]).toEqual([
        metadata!.name,
        metadata!.name === "berth-deployer" ? 2 : undefined,
      ]);
    const scaled = ofKind<Manifest>(external, "HorizontalPodAutoscaler");
    const scalable = programs.map(({ name }) => `berth-${name}`).filter((name) => name !== "berth-deployer");
    expect(scaled.map((one) => one.metadata!.name).sort()).toEqual(scalable.sort());
    expect(JSON.stringify(scaled)).toContain('"maxReplicas":12');
  });

  test("a database that is there is prepared before anything else, one that comes with it by a Job of the release", () => {
    const job = (manifests: Manifest[]) => ofKind<Manifest>(manifests, "Job")[0]!.metadata!;
    expect(job(external).annotations!["helm.sh/hook"]).toBe("pre-install,pre-upgrade,pre-rollback");
    expect(job(bundled).annotations).toBeUndefined();
    const waits = (manifests: Manifest[]) =>
      ofKind<V1Deployment>(manifests, "Deployment").map(
        (one) => one.spec!.template.spec!.initContainers?.length ?? 0,
      );
    expect(waits(bundled)).toEqual(programs.map(() => 1));
    expect(waits(external)).toEqual(programs.map(() => 0));
  });
});
