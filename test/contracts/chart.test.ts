import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type {
  V1ConfigMap,
  V1Deployment,
  V1Namespace,
  V1NetworkPolicy,
  V1Secret,
} from "@kubernetes/client-node";
import { register } from "prom-client";
import { beforeAll, describe, expect, test } from "vitest";
import { programs } from "../../deploy/local/processes/programs.ts";
import { fields as gatewayFields } from "../../gateway/config.ts";
import { kubernetesFields } from "../../services/deployer/config.ts";
import { fields as identityFields } from "../../services/identity/config.ts";
import { readConfig } from "../../services/kit/process/config.ts";
import { startTelemetry } from "../../services/kit/telemetry.ts";
import { fields as variablesFields } from "../../services/variables/config.ts";
import { chartFolder, ciValues, helm, helmProgram, type Manifest, ofKind, podsOf, render } from "./chart.ts";

if (!helmProgram) console.log("The chart is not tested: there is no helm (on the path, in HELM, or built).");

let bundled: Manifest[];
let external: Manifest[];

describe.skipIf(!helmProgram)("the chart", () => {
  beforeAll(async () => {
    [bundled, external] = await Promise.all([render("bundled"), render("external")]);
  });

  const both = () => [...bundled, ...external];
  const config = (manifests: Manifest[], name: string) =>
    ofKind<V1ConfigMap>(manifests, "ConfigMap").find((one) => one.metadata!.name === name)!.data!;

  test("helm lint passes for every set of example values", async () => {
    for (const values of ["bundled", "external"])
      expect(await helm("lint", chartFolder, "--kube-version", "1.36.0", "-f", ciValues(values))).toContain(
        "0 chart(s) failed",
      );
  });

  test("its version of the app is the project's", async () => {
    const { version } = JSON.parse(await readFile(join(chartFolder, "../../package.json"), "utf8"));
    expect(await readFile(join(chartFolder, "Chart.yaml"), "utf8")).toContain(`appVersion: ${version}\n`);
  });

  test("it starts the processes that npm start starts", () => {
    const started = ofKind<V1Deployment>(bundled, "Deployment").map((one) => one.metadata!.name);
    expect(started.sort()).toEqual(programs.map(({ name }) => `berth-${name}`).sort());
  });

  test("every process accepts the environment that it gets", () => {
    const key = Buffer.alloc(32).toString("base64");
    const secret: Record<string, string> = {
      INTERNAL_KEYS: key,
      SECRET_KEYS: key,
      ENCRYPTION_KEYS: `k1:${key}`,
      S3_ACCESS_KEY: "a",
      S3_SECRET_KEY: "s",
    };
    const known = {
      gateway: gatewayFields,
      identity: identityFields,
      variables: variablesFields,
      deployer: kubernetesFields,
    };
    for (const manifests of [bundled, external])
      for (const deployment of ofKind<V1Deployment>(manifests, "Deployment")) {
        const { name, env, envFrom } = deployment.spec!.template.spec!.containers[0]!;
        const environment = { ...config(manifests, envFrom![0]!.configMapRef!.name!) };
        for (const { name, value } of env!) environment[name] = value ?? secret[name] ?? "";
        expect(readConfig(environment, known[name as keyof typeof known])).toMatchObject({ port: 8080 });
      }
  });

  test("what is missing is told at once, in sentences", async () => {
    const failure = await helm("template", chartFolder, "--kube-version", "1.36.0").catch(String);
    for (const name of [
      "image.repository",
      "builds.image.repository",
      "publicUrl",
      "apps.domain",
      "owner.email",
    ])
      expect(failure).toMatch(new RegExp(`- ${name}: [^.]+\\.`));
  });

  test.each([
    ["a member that does not exist", { "gateway.replicas": "2" }, "'gateway' not allowed"],
    ["a member misspelled deep inside", { "database.server.storage.sise": '"1Gi"' }, "'sise' not allowed"],
    ["a process that does not exist", { "processes.identiy": "{}" }, "there is no such process"],
    ["no replica", { "processes.identity.replicas": "0" }, "minimum"],
    ["a text for a number", { "database.port": '"5432"' }, "want integer"],
    ["a word that is none of the choices", { logLevel: '"loud"' }, "must be one of"],
    ["an origin with a path", { publicUrl: '"https://example.com/berth"' }, "/publicUrl"],
    ["a domain in capitals", { "apps.domain": '"Example.com"' }, "/apps/domain"],
    ["a size that is none", { "nats.server.storage.size": '"much"' }, "/nats/server/storage/size"],
    ["a network without its width", { "networkPolicy.databaseCidrs": '["10.0.0.1"]' }, "databaseCidrs"],
    ["a password in a URL", { "nats.bundled": "false", "nats.url": '"nats://a:b@c:1"' }, "/nats/url"],
    ["a certificate that is none", { "builds.extraCaBundle": '"hello"' }, "/builds/extraCaBundle"],
    ["no server of one's own", { "database.bundled": "false" }, "database.host: name your PostgreSQL"],
    [
      "an object store without keys",
      { "objectStore.bundled": "false", "objectStore.endpoint": '"https://s3.example.com"' },
      "objectStore.existingSecret",
    ],
    ["a registry without address", { "registry.bundled": "false" }, "registry.push: name your registry"],
    ["a NATS without address", { "nats.bundled": "false" }, "nats.url: name your NATS"],
    ["an address behind an ingress", { publicUrl: '"http://10.0.0.1"' }, "an ingress needs a name"],
    ["mail without a server", { "smtp.from": '"a@example.com"' }, "smtp.existingSecret: name the Secret"],
    ["mail from nobody", { "smtp.existingSecret": '"my-mail"' }, "smtp.from: say whom"],
    ["two doors", { "httpRoute.enabled": "true" }, "choose ingress or httpRoute"],
    ["an end before the drain is over", { "defaults.drainSeconds": "25" }, "must be more than drainSeconds"],
    [
      "bounds the wrong way round",
      { "defaults.autoscaling": '{"enabled":true,"minReplicas":9}' },
      "minReplicas is more",
    ],
  ])("%s is refused", async (_what, set, sentence) => {
    await expect(render("bundled", set)).rejects.toThrow(sentence);
  });

  test("every pod is restricted", () => {
    const pods = podsOf(both());
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

  test("the deployer alone has a token of the cluster", async () => {
    const withToken = podsOf(both()).filter(({ spec }) => spec.automountServiceAccountToken !== false);
    expect(new Set(withToken.map(({ name }) => name))).toEqual(new Set(["Deployment/berth-deployer"]));
    const removing = podsOf(await render("bundled", { "uninstall.removeApps": "true" }));
    expect(removing.filter(({ spec }) => spec.serviceAccountName).map(({ name }) => name)).toEqual([
      "Deployment/berth-deployer",
      "Job/berth-remove-apps",
    ]);
    const roles = [...ofKind<Manifest>(bundled, "ClusterRole"), ...ofKind<Manifest>(bundled, "Role")];
    for (const role of roles) expect(JSON.stringify(role)).not.toContain('"*"');
  });

  test("what is secret stands in Secrets only", () => {
    const values = ofKind<V1Secret>(bundled, "Secret").flatMap((one) => Object.values(one.data ?? {}));
    const secrets = values.flatMap((value) => [value, Buffer.from(value, "base64").toString()]);
    expect(secrets.length).toBeGreaterThan(20);
    const others = JSON.stringify(bundled.filter((one) => one.kind !== "Secret"));
    for (const secret of secrets) expect(others.includes(secret)).toBe(false);
  });

  test("a release with Secrets of one's own makes none, and names only those", () => {
    const made = ofKind<V1Secret>(external, "Secret").filter((one) => Object.keys(one.data ?? {}).length > 0);
    expect(made).toEqual([]);
    const named = [...JSON.stringify(external).matchAll(/"secretKeyRef":\{[^}]*"name":"([^"]+)"/g)].map(
      (m) => m[1],
    );
    expect(new Set(named)).toEqual(
      new Set(["my-owner", "my-mail", "my-keys", "my-roles", "my-admin", "my-nats", "my-s3"]),
    );
  });

  test("Secrets that data needs are kept when the release goes", () => {
    const kept = ofKind<V1Secret>(bundled, "Secret").filter(
      (one) => one.metadata!.annotations?.["helm.sh/resource-policy"] === "keep",
    );
    expect(kept.map((one) => one.metadata!.name).sort()).toEqual([
      "berth-database",
      "berth-keys",
      "berth-owner",
    ]);
  });

  test("every image can be another", async () => {
    const image = '{"repository":"mirror.test/x","tag":"1"}';
    const set: Record<string, string> = { image, "builds.image": image };
    for (const part of ["database", "nats", "objectStore", "registry"]) set[`${part}.server.image`] = image;
    for (const name of ["postgresImage", "redisImage"]) set[`apps.addons.${name}`] = '"mirror.test/x:1"';
    set["builds.baseImages"] =
      '{"node":"mirror.test/n","python":"mirror.test/p","go":"mirror.test/g","static":"mirror.test/s"}';
    const manifests = await render("bundled", set);
    for (const { spec } of podsOf(manifests))
      for (const container of [...(spec.initContainers ?? []), ...spec.containers])
        expect(container.image).toBe("mirror.test/x:1");
    expect(JSON.stringify(manifests)).not.toContain("docker.io");
  });

  test("a roll-out takes no pod away before another is ready, and lets requests end", () => {
    for (const deployment of ofKind<V1Deployment>(both(), "Deployment")) {
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

  test("autoscaling takes the number of replicas out of the chart's hands", () => {
    for (const deployment of ofKind<V1Deployment>(external, "Deployment"))
      expect(deployment.spec!.replicas).toBeUndefined();
    expect(ofKind(external, "HorizontalPodAutoscaler")).toHaveLength(4);
    expect(JSON.stringify(ofKind(external, "HorizontalPodAutoscaler"))).toContain('"maxReplicas":12');
  });

  test("a database that is there is prepared before anything else, one that comes with it by a Job of the release", () => {
    const job = (manifests: Manifest[]) => ofKind<Manifest>(manifests, "Job")[0]!.metadata!;
    expect(job(external).annotations!["helm.sh/hook"]).toBe("pre-install,pre-upgrade");
    expect(job(bundled).annotations).toBeUndefined();
    const waits = (manifests: Manifest[]) =>
      ofKind<V1Deployment>(manifests, "Deployment").map(
        (one) => one.spec!.template.spec!.initContainers?.length ?? 0,
      );
    expect(waits(bundled)).toEqual([1, 1, 1, 1]);
    expect(waits(external)).toEqual([0, 0, 0, 0]);
  });

  test("the namespace of builds has the strictest level that admits them", async () => {
    const level = (manifests: Manifest[]) =>
      ofKind<V1Namespace>(manifests, "Namespace")[0]!.metadata!.labels!["pod-security.kubernetes.io/enforce"];
    expect(level(bundled)).toBe("privileged");
    expect(level(external)).toBe("baseline");
    expect(level(await render("bundled", { "builds.userNamespaces": "true" }))).toBe("privileged");
  });

  test("everything is shut, and each server is open only to those who use it", () => {
    const policies = new Map(
      ofKind<V1NetworkPolicy>(bundled, "NetworkPolicy").map((one) => [
        `${one.metadata!.namespace}/${one.metadata!.name}`,
        one.spec!,
      ]),
    );
    expect(policies.get("platform/berth-default-deny")).toMatchObject({ policyTypes: ["Ingress", "Egress"] });
    expect(policies.get("platform/berth-default-deny")!.ingress).toBeUndefined();
    expect(policies.get("berth-builds/berth")).toMatchObject({
      podSelector: {},
      policyTypes: ["Ingress", "Egress"],
    });
    const peers = (name: string) => {
      const from = policies.get(`platform/berth-${name}`)!.ingress?.flatMap((rule) => rule._from ?? []);
      const known = /gateway|identity|variables|deployer|prepare|rotate|berth-builds/g;
      return [...new Set(JSON.stringify(from).match(known))].sort();
    };
    expect(peers("identity")).toEqual(["gateway"]);
    expect(peers("deployer")).toEqual(["gateway", "variables"]);
    expect(peers("postgres")).toEqual(["deployer", "gateway", "identity", "prepare", "rotate", "variables"]);
    expect(peers("object-store")).toEqual(["berth-builds", "deployer"]);
  });

  test("identity alone sends mail, and nobody where there is no mail", () => {
    const open = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy")
        .filter((one) => one.spec!.egress?.some(({ ports }) => ports?.some(({ port }) => port === 587)))
        .map((one) => one.metadata!.name);
    expect(open(bundled)).toEqual([]);
    expect(open(external)).toEqual(["berth-identity"]);
    const asking = ofKind<V1Deployment>(external, "Deployment").filter((one) =>
      JSON.stringify(one).includes("SMTP_URL"),
    );
    expect(asking.map((one) => one.metadata!.name)).toEqual(["berth-identity"]);
    expect(config(external, "berth-identity").MAIL_FROM).toBe("Berth <berth@example.com>");
  });

  test("metrics are not at the gateway's public door", () => {
    expect(config(bundled, "berth-gateway").METRICS_PORT).toBe("9090");
    expect(JSON.stringify(ofKind(bundled, "Ingress"))).not.toContain("metrics");
    expect(JSON.stringify(ofKind(external, "HTTPRoute"))).not.toContain("9090");
  });

  test("every metric on the dashboard exists", async () => {
    await startTelemetry("test", undefined);
    await Promise.all([
      import("../../gateway/http/request-metrics.ts"),
      import("../../gateway/streams/sse-bridge.ts"),
    ]);
    const dashboard = JSON.parse(config(external, "berth-dashboard")["berth.json"]!);
    const text = JSON.stringify(dashboard.panels);
    const names = new Set(text.match(/\b(berth|nodejs|process)_[a-z0-9_]+/g));
    expect(names.size).toBeGreaterThan(6);
    for (const name of names)
      expect([
        name,
        register.getSingleMetric(name.replace(/_(count|sum|bucket)$/, "")) !== undefined,
      ]).toEqual([name, true]);
  });
});
