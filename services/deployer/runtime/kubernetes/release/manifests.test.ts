import type { V1LimitRange } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { annotation, label } from "../../../kube/names.ts";
import type { Release } from "../../port.ts";
import { environmentManifests, namespaceFor } from "../namespace/namespace-manifests.ts";
import { contains } from "../observe/drift/drift.ts";
import { type AppRelease, manifestsOf, objectName, secretOf } from "./manifests.ts";
import { readState, withAnnotations } from "./release-annotations.ts";

const release: AppRelease = {
  serviceId: "svc_1",
  accountId: "acc_1",
  projectId: "prj_1",
  environmentId: "env_1",
  names: { project: "shop", environment: "test", service: "web" },
  type: "web",
  version: 2,
  revision: 5,
  artifact: "image:example.test/web@sha256:0123",
  port: 8080,
  replicas: 2,
  size: "small",
  minReadySeconds: 10,
};
const apps = {
  domain: "example.test",
  scheme: "https" as const,
  drainSeconds: 5,
  graceSeconds: 30,
  rolloutDeadlineMs: 300_000,
  reserved: { cpu: 0.1, memory: 0.5, storage: 0.1 },
};
const options = {
  apps,
  ingress: { enabled: true, className: "nginx", annotations: { a: "b" }, tlsSecret: "{service}-tls" },
  host: "web-test-shop.example.test",
  pullSecret: false,
};
const make = (changes: Partial<AppRelease> = {}, other: Partial<typeof options> = {}) =>
  manifestsOf({ ...release, ...changes }, { ...options, ...other });
const podOf = (changes: Partial<AppRelease> = {}) => {
  const spec = make(changes).deployment.template.spec;
  return { pod: spec!, container: spec!.containers[0]! };
};

describe("what a release is on a cluster", () => {
  test("pods carry what distinguishes them: their release, and a hash of their template", () => {
    const { template } = make().deployment;
    expect(template.metadata?.labels).toMatchObject({
      [label("service")]: "svc_1",
      [label("version")]: "2",
      [label("revision")]: "5",
    });
    const other = make({ size: "large" }).deployment.template;
    const hash = annotation("template");
    expect(other.metadata?.annotations?.[hash]).not.toBe(template.metadata?.annotations?.[hash]);
  });

  test("a roll changes the template alone, and none that was never asked for does not", () => {
    const templateOf = (changes: Partial<AppRelease>) => make(changes).deployment.template;
    const hashOf = (changes: Partial<AppRelease>) =>
      JSON.stringify(templateOf(changes).metadata?.annotations);
    expect(templateOf({ rolls: 0 })).toEqual(templateOf({}));
    expect(new Set([hashOf({}), hashOf({ rolls: 1 }), hashOf({ rolls: 2 })]).size).toBe(3);
    expect(templateOf({ rolls: 1 }).spec).toEqual(templateOf({}).spec);
    expect(templateOf({ rolls: 1 }).metadata?.labels).toEqual(templateOf({}).metadata?.labels);
  });

  test("a roll-over takes no replica away before another stands in for it", () => {
    const { deployment } = make();
    expect(deployment.strategy?.rollingUpdate?.maxUnavailable).toBe(0);
    expect(deployment).toMatchObject({ replicas: 2, minReadySeconds: 10, progressDeadlineSeconds: 300 });
    const slow = make({ minReadySeconds: 60 }, { apps: { ...apps, rolloutDeadlineMs: 20_000 } }).deployment;
    expect(slow.progressDeadlineSeconds).toBeGreaterThan(60);
  });

  test("pods have no more rights than `restricted` gives, no token and no addresses of neighbours", () => {
    const { pod, container } = podOf();
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    });
    expect(podOf({ port: 80 }).pod.securityContext?.sysctls).toHaveLength(1);
  });

  test("replicas are spread over nodes and zones, where that is possible", () => {
    const spread = podOf().pod.topologySpreadConstraints!;
    expect(spread.map(({ topologyKey }) => topologyKey)).toEqual([
      "kubernetes.io/hostname",
      "topology.kubernetes.io/zone",
    ]);
    for (const one of spread) expect(one.whenUnsatisfiable).toBe("ScheduleAnyway");
  });

  test("sizes are limits, a part of them is reserved, in the form that the API gives back", () => {
    expect(podOf().container.resources).toEqual({
      requests: { cpu: "50m", memory: "256Mi", "ephemeral-storage": "205Mi" },
      limits: { cpu: "500m", memory: "512Mi", "ephemeral-storage": "2Gi" },
    });
    const large = { cpu: "2", memory: "4Gi", "ephemeral-storage": "8Gi" };
    expect(podOf({ size: "large" }).container.resources?.limits).toEqual(large);
  });

  test("a health check path is asked for; without one a connection is enough; a worker is asked nothing", () => {
    const checked = podOf({ healthCheckPath: "/healthz" }).container;
    for (const probe of [checked.startupProbe, checked.readinessProbe, checked.livenessProbe])
      expect(probe?.httpGet).toEqual({ path: "/healthz", port: "http" });
    expect(podOf().container.readinessProbe?.tcpSocket).toEqual({ port: "http" });
    const worker = podOf({ type: "worker" }).container;
    expect([worker.readinessProbe, worker.ports, worker.lifecycle]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(make({ type: "worker" })).not.toHaveProperty("service");
    expect(make({ type: "worker" })).not.toHaveProperty("ingress");
  });

  test("pods run where the operator says; another placement makes other pods", () => {
    const placement = {
      nodeSelector: { "kubernetes.io/arch": "arm64" },
      tolerations: [{ key: "apps", operator: "Exists" }],
      runtimeClassName: "gvisor",
    };
    const template = make({}, { apps: { ...apps, placementOf: () => placement } as typeof apps }).deployment
      .template;
    expect(template.spec).toMatchObject(placement);
    const hash = annotation("template");
    expect(template.metadata?.annotations?.[hash]).not.toBe(
      make().deployment.template.metadata?.annotations?.[hash],
    );
  });

  test("pods of a plan run where that says", () => {
    const placementOf = (tier: string | undefined) =>
      tier === "free" ? { runtimeClassName: "gvisor" } : { runtimeClassName: "runc" };
    const classOf = (tier?: string) =>
      make({ tier }, { apps: { ...apps, placementOf } as typeof apps }).deployment.template.spec
        ?.runtimeClassName;
    expect(["free", "pro", undefined].map(classOf)).toEqual(["gvisor", "runc", "runc"]);
  });

  test("requests go on being answered while a replica goes, and the time for it comes on top", () => {
    const { pod, container } = podOf();
    expect(container.lifecycle?.preStop?.sleep).toEqual({ seconds: 5 });
    expect(pod.terminationGracePeriodSeconds).toBe(35);
  });

  test("the image's own command stays unless one is given; PORT is always set", () => {
    expect(podOf().container.command).toBeUndefined();
    expect(podOf({ command: "npm start" }).container.command).toEqual(["/bin/sh", "-c", "exec npm start"]);
    expect(podOf({ command: "a && b" }).container.command).toEqual(["/bin/sh", "-c", "a && b"]);
    expect(podOf({ port: 3000 }).container.env).toEqual([{ name: "PORT", value: "3000" }]);
  });

  test("another version, revision or size makes other pods; other replicas do not", () => {
    const template = (changes: Partial<AppRelease>) => JSON.stringify(make(changes).deployment.template);
    const own = template({});
    expect(template({ replicas: 9 })).toBe(own);
    for (const changes of [{ version: 3 }, { revision: 6 }, { size: "nano" as const }])
      expect(template(changes)).not.toBe(own);
  });

  test("the address has the class, annotations and certificate of the configuration", () => {
    const { ingress, service } = make();
    expect(ingress?.annotations).toEqual({ a: "b" });
    expect(ingress?.spec).toMatchObject({
      ingressClassName: "nginx",
      tls: [{ hosts: ["web-test-shop.example.test"], secretName: "web-tls" }],
    });
    expect(make({}, { apps: { ...apps, scheme: "http" as never } }).ingress?.spec.tls).toBeUndefined();
    expect(service?.ports?.map(({ port }) => port)).toEqual([80, 8080]);
  });

  test("a private service has its name in the environment and no way in from outside, nor have its pods", () => {
    const made = make({ public: false });
    expect(Object.keys(made)).toEqual(["deployment", "service"]);
    expect(made.service).toEqual(make().service);
    const labelsOf = ({ deployment }: typeof made) => deployment.template.metadata?.labels ?? {};
    expect(labelsOf(made)["berth.dev/access"]).toBe("private");
    expect(labelsOf(make())["berth.dev/access"]).toBeUndefined();
    expect(make({ public: false }).deployment.template.spec).toEqual(make().deployment.template.spec);
  });

  test("pods say where their metrics are, and only those that have some", () => {
    const annotationsOf = (changes: Partial<AppRelease>) =>
      make(changes).deployment.template.metadata?.annotations ?? {};
    const scraped = { metricsPath: "/metrics", port: 9090 };
    for (const type of ["web", "worker"] as const)
      expect(annotationsOf({ ...scraped, type })).toMatchObject({
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": "9090",
      });
    expect(make(scraped).deployment.template.metadata?.labels?.["berth.dev/metrics"]).toBe("scraped");
    expect(JSON.stringify(make())).not.toMatch(/prometheus|berth.dev.metrics/);
  });

  test("is called as its service, unless a cluster cannot call it so", () => {
    expect(objectName(release)).toBe("web");
    const odd = { ...release, names: { ...release.names, service: "web-" } };
    expect(objectName(odd)).toMatch(/^web-[0-9a-f]{8}$/);
  });

  test("is called as it was created once its service has another name, in all that refers to it", () => {
    const renamed = { ...release, names: { ...release.names, service: "site" }, objectName: "web" };
    expect(objectName(renamed)).toBe("web");
    const backend = { service: { name: "web", port: { name: "http" } } };
    expect(manifestsOf(renamed, options).ingress?.spec.rules?.[0]?.http?.paths[0]?.backend).toEqual(backend);
    const odd = { ...renamed, objectName: "web-" };
    expect(objectName(odd)).toBe(objectName({ ...release, names: { ...release.names, service: "web-" } }));
  });

  test("values of variables are in the Secret and nowhere else", () => {
    const whole: Release = { ...release, env: { KEY: "k-4711" } };
    const deployment = withAnnotations(
      { metadata: { name: "web" } },
      {
        release,
        manifests: make(),
        appliedAt: 0,
        usage: [],
      },
    );
    expect(JSON.stringify(deployment)).not.toContain("k-4711");
    const secret = secretOf(whole, "ns", deployment);
    expect(secret.data).toEqual({ KEY: Buffer.from("k-4711").toString("base64") });
    expect(secret.metadata).toMatchObject({ name: "web-v2-r5", ownerReferences: [{ kind: "Deployment" }] });
  });

  test("an artifact that is no image is refused with a sentence", () => {
    expect(() => make({ artifact: "directory:bld_1" })).toThrow(
      expect.objectContaining({ code: "artifact_missing" }),
    );
  });
});

test("what is recorded of a release is read as it was written", () => {
  const recorded = {
    release,
    manifests: make(),
    appliedAt: Date.UTC(2026, 0, 1),
    healthyAt: Date.UTC(2026, 0, 2),
    usage: [
      { at: 1, replicas: 0 },
      { at: 2, replicas: 1, size: "nano" as const },
    ],
  };
  const read = readState(withAnnotations({ metadata: { name: "web" } }, recorded));
  expect(read).toEqual(JSON.parse(JSON.stringify(recorded)));
});

describe("drift", () => {
  test("what the cluster adds is none; what is missing, other, longer or shorter is", () => {
    const wanted = { a: { b: 1, list: [{ name: "x" }] }, none: undefined };
    expect(contains({ a: { b: 1, list: [{ name: "x", more: true }], c: 2 } }, wanted)).toBe(true);
    expect(contains({ a: { b: 2, list: [{ name: "x" }] } }, wanted)).toBe(false);
    expect(contains({ a: { b: 1, list: [] } }, wanted)).toBe(false);
    expect(contains({ a: { b: 1, list: [{ name: "x" }, { name: "y" }] } }, wanted)).toBe(false);
    expect(contains(undefined, wanted)).toBe(false);
    expect(contains(undefined, undefined)).toBe(true);
  });
});

describe("an environment's namespace", () => {
  const environment = { accountId: "acc_1", projectId: "prj_1", environmentId: "env_1" };
  const given = {
    namespacePrefix: "berth",
    claimsNamespace: "berth-builds",
    network: {
      ingressNamespaceLabels: [{ name: "ingress" }],
      ingressFromCidrs: ["192.0.2.1/32"],
      egressExceptCidrs: ["10.0.0.0/8", "fc00::/7"],
      portRanges: true,
      metricsPeers: [],
      closedPorts: [],
      dnsPorts: [53, 5353],
      dnsPeers: [{ ipBlock: { cidr: "10.96.0.10/32" } }],
    },
    quota: { pods: "10" },
  };

  test("admits only restricted pods and belongs to its environment", () => {
    const { metadata } = namespaceFor(environment, given);
    expect(metadata.name).toBe("berth-env-1");
    expect(metadata.labels).toMatchObject({
      "pod-security.kubernetes.io/enforce": "restricted",
      "app.kubernetes.io/managed-by": "berth",
      "berth.dev/environment": "env_1",
      "berth.dev/installation": "berth-builds",
    });
  });

  test("lets nothing through but neighbours, DNS, the internet and the ingress controller", () => {
    const spec = (name: string) => {
      const found = environmentManifests(environment, given).find(
        ({ kind, object }) => kind.kind === "NetworkPolicy" && object.metadata.name === name,
      );
      return (found?.object as { spec?: Record<string, unknown> } | undefined)?.spec;
    };
    expect(spec("deny")).toEqual({ podSelector: {}, policyTypes: ["Ingress", "Egress"] });
    expect(spec("in")?.ingress).toEqual([
      {
        _from: [
          { ipBlock: { cidr: "192.0.2.1/32" } },
          { namespaceSelector: { matchLabels: { name: "ingress" } } },
        ],
      },
    ]);
    expect(spec("out")?.egress).toContainEqual({
      ports: [
        { port: 53, protocol: "UDP" },
        { port: 53, protocol: "TCP" },
        { port: 5353, protocol: "UDP" },
        { port: 5353, protocol: "TCP" },
      ],
      to: [{ ipBlock: { cidr: "10.96.0.10/32" } }],
    });
    expect(spec("out")?.egress).toHaveLength(2);
    expect(spec("out")?.egress).toContainEqual({
      ports: expect.any(Array),
      to: [
        { ipBlock: { cidr: "0.0.0.0/0", except: ["10.0.0.0/8"] } },
        { ipBlock: { cidr: "::/0", except: ["fc00::/7"] } },
      ],
    });
  });

  test("pods that say nothing of the local disk may use some, as a quota admits no others", () => {
    const found = environmentManifests(environment, given).find(({ kind }) => kind.kind === "LimitRange");
    const [limits] = (found!.object as V1LimitRange).spec!.limits;
    expect(limits!._default).toHaveProperty("ephemeral-storage", "8Gi");
    expect(limits!.defaultRequest).toHaveProperty("ephemeral-storage", "100Mi");
  });

  test("without an ingress controller nothing comes in from outside", () => {
    const network = {
      ingressNamespaceLabels: [],
      ingressFromCidrs: [],
      egressExceptCidrs: [],
      portRanges: true,
      metricsPeers: [],
      closedPorts: [],
      dnsPorts: [53],
      dnsPeers: [],
    };
    const names = environmentManifests(environment, { ...given, network }).map(
      ({ object }) => object.metadata.name,
    );
    expect(names).not.toContain("in");
  });
});
