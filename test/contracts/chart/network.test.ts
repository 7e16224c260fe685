import type { V1Deployment, V1Ingress, V1Namespace, V1NetworkPolicy } from "@kubernetes/client-node";
import { beforeAll, describe, expect, test } from "vitest";
import { programs } from "../../../deploy/local/programs/programs.ts";
import { configOf, helmProgram, type Manifest, ofKind, render } from "./render.ts";

describe.skipIf(!helmProgram)("the network and metrics of the chart", () => {
  let bundled: Manifest[];
  let external: Manifest[];

  beforeAll(async () => {
    [bundled, external] = await Promise.all([render("bundled"), render("external")]);
  });

  test("the namespace of builds has the strictest level that admits them", async () => {
    const level = (manifests: Manifest[]) =>
      ofKind<V1Namespace>(manifests, "Namespace")[0]!.metadata!.labels!["pod-security.kubernetes.io/enforce"];
    expect(level(bundled)).toBe("privileged");
    expect(level(external)).toBe("baseline");
    expect(level(await render("bundled", { "builds.userNamespaces": "true" }))).toBe("privileged");
    const confined = async (profile: string) =>
      level(await render("external", { "builds.appArmorProfile": JSON.stringify(profile) }));
    expect([await confined("berth-build"), await confined("unconfined")]).toEqual(["baseline", "privileged"]);
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
    const processes = programs.map(({ name }) => name);
    const peers = (name: string) => {
      const from = policies.get(`platform/berth-${name}`)!.ingress?.flatMap((rule) => rule._from ?? []);
      const others = ["prepare", "rotate", "test-builds", "berth-builds"];
      const known = new RegExp([...processes, ...others].join("|"), "g");
      return [...new Set(JSON.stringify(from).match(known))].sort();
    };
    expect(peers("identity")).toEqual(["billing", "gateway", "notifications"]);
    expect(peers("billing")).toEqual(["gateway", "identity"]);
    expect(peers("notifications")).toEqual(["gateway"]);
    expect(peers("deployer")).toEqual(["billing", "gateway", "identity", "notifications", "variables"]);
    expect(peers("postgres")).toEqual([...processes, "prepare", "rotate"].sort());
    expect(peers("object-store")).toEqual(["berth-builds", "deployer"]);
    expect(peers("registry")).toEqual(["berth-builds", "deployer", "test-builds"]);
    const open = policies.get("platform/berth-registry")!.ingress!.filter(({ _from }) => !_from);
    expect(open.flatMap(({ ports }) => ports!.map(({ port }) => port))).toEqual([5001]);
  });

  test("the pods that copy addons reach the object store, from environments of this installation alone", () => {
    const rules = (manifests: Manifest[]) =>
      JSON.parse(configOf(manifests, "berth-deployer").ADDON_COPIES_TO!);
    const [rule] = rules(bundled);
    expect(rule.ports).toEqual([{ protocol: "TCP", port: 7070 }]);
    expect(rule.to).toMatchObject([
      {
        podSelector: { matchLabels: { "app.kubernetes.io/component": "object-store" } },
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "platform" } },
      },
    ]);
    const store = ofKind<V1NetworkPolicy>(bundled, "NetworkPolicy").find(
      ({ metadata }) => metadata!.name === "berth-object-store",
    );
    expect(store!.spec!.ingress!.flatMap(({ _from }) => _from ?? [])).toContainEqual({
      namespaceSelector: {
        matchLabels: { "app.kubernetes.io/managed-by": "berth", "berth.dev/installation": "berth-builds" },
      },
      podSelector: { matchLabels: { "berth.dev/kind": "copy" } },
    });
    // As for the deployer: without addresses of the object store, its port.
    expect(rules(external)).toEqual([{ ports: [{ protocol: "TCP", port: 443 }] }]);
  });

  test("the deployer alone reaches the servers of addons, of this installation alone", () => {
    const policies = ofKind<V1NetworkPolicy>(bundled, "NetworkPolicy");
    const reaches = policies.filter(({ spec }) => JSON.stringify(spec?.egress ?? []).includes('"instance"'));
    expect(reaches.map(({ metadata }) => metadata!.name)).toEqual(["berth-deployer"]);
    const rule = reaches[0]!.spec!.egress!.find(({ ports }) => ports?.some(({ port }) => port === 6379))!;
    expect(rule.ports).toEqual([5432, 6379].map((port) => ({ protocol: "TCP", port })));
    expect(rule.to).toMatchObject([
      {
        namespaceSelector: { matchLabels: { "berth.dev/installation": "berth-builds" } },
        podSelector: { matchExpressions: [{ key: "berth.dev/kind", values: ["addon", "instance"] }] },
      },
    ]);
  });

  test("the cluster's DNS alone is asked: by the platform, by builds and by apps", async () => {
    const rules = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy").flatMap(({ spec }) =>
        (spec!.egress ?? []).filter(({ ports }) => !ports || ports.some(({ port }) => port === 53)),
      );
    const dns = {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
      podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
    };
    expect(rules(bundled).map(({ to }) => to)).toEqual([[dns], [dns]]);
    expect(JSON.parse(configOf(bundled, "berth-deployer").DNS_PEERS!)).toEqual([dns]);
    const cache = { ipBlock: { cidr: "169.254.20.10/32" } };
    const cached = await render("bundled", { "networkPolicy.dnsPeers": JSON.stringify([dns, cache]) });
    expect(rules(cached).map(({ to }) => to)).toEqual([
      [dns, cache],
      [dns, cache],
    ]);
    expect(JSON.parse(configOf(cached, "berth-deployer").DNS_PEERS!)).toEqual([dns, cache]);
  });

  test("identity and notifications alone send mail, and nobody where there is no mail", () => {
    const open = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy")
        .filter((one) => one.spec!.egress?.some(({ ports }) => ports?.some(({ port }) => port === 587)))
        .map((one) => one.metadata!.name);
    expect(open(bundled)).toEqual([]);
    const senders = ["berth-identity", "berth-notifications"];
    expect(open(external)).toEqual(senders);
    const asking = ofKind<V1Deployment>(external, "Deployment").filter((one) =>
      JSON.stringify(one).includes("SMTP_URL"),
    );
    expect(asking.map((one) => one.metadata!.name)).toEqual(senders);
    for (const name of senders) expect(configOf(external, name).MAIL_FROM).toBe("Berth <berth@example.com>");
  });

  test("identity alone calls Hydra's admin API, and looks for documents about clients in the internet alone", async () => {
    const egress = (manifests: Manifest[], name: string) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy").find(
        ({ metadata }) => metadata!.name === `berth-${name}`,
      )!.spec!.egress!;
    const open = (manifests: Manifest[], port: number) =>
      programs
        .map(({ name }) => name)
        .filter((name) =>
          egress(manifests, name).some(({ ports }) => ports?.some((one) => one.port === port)),
        );
    expect([open(external, 4445), open(external, 4444)]).toEqual([["identity"], ["gateway"]]);
    expect([open(bundled, 4445), open(bundled, 4444)]).toEqual([[], []]);
    const hydra = egress(external, "identity").find(({ ports }) => ports?.some(({ port }) => port === 4445));
    expect(hydra!.to).toEqual([{ ipBlock: { cidr: "10.3.0.0/24" } }]);
    const internet = (manifests: Manifest[]) =>
      egress(manifests, "identity").filter(({ ports }) => ports?.some(({ port }) => port === 443));
    const [four, six] = internet(bundled)[0]!.to!.map(({ ipBlock }) => ipBlock!);
    expect(four).toEqual({ cidr: "0.0.0.0/0", except: expect.arrayContaining(["10.0.0.0/8"]) });
    expect(six).toEqual({ cidr: "::/0", except: ["fc00::/7", "fe80::/10"] });
    expect(internet(bundled)).toHaveLength(1);
    expect(internet(external)).toEqual([]);
    expect(internet(await render("bundled", { "oauth.clientIdMetadata": "false" }))).toEqual([]);
  });

  test("the deployer alone reads from Loki, at its addresses, and nobody where there is none", () => {
    const rules = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy").flatMap(({ metadata, spec }) =>
        (spec!.egress ?? [])
          .filter(({ ports }) => ports?.some(({ port }) => port === 3100))
          .map(({ to }) => [metadata!.name, to]),
      );
    expect(rules(bundled)).toEqual([]);
    expect(rules(external)).toEqual([["berth-deployer", [{ ipBlock: { cidr: "10.4.0.0/24" } }]]]);
    expect(configOf(bundled, "berth-deployer").LOKI_URL).toBeUndefined();
    expect(configOf(external, "berth-deployer")).toMatchObject({
      LOKI_URL: "https://loki.example.com:3100",
      LOKI_TENANT: "apps",
      LOKI_LABELS: expect.stringContaining('"service":"service"'),
    });
  });

  test("the deployer alone queries Prometheus, on its port, and nobody where there is none", async () => {
    const open = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy")
        .filter(({ spec }) => spec!.egress?.some(({ ports }) => ports?.some(({ port }) => port === 9099)))
        .map(({ metadata }) => metadata!.name);
    expect(open(bundled)).toEqual([]);
    expect(configOf(bundled, "berth-deployer").PROMETHEUS_URL).toBeUndefined();
    const url = "http://mimir.monitoring:9099/prometheus";
    const given = await render("bundled", { "apps.metrics.prometheusUrl": JSON.stringify(url) });
    expect(open(given)).toEqual(["berth-deployer"]);
    expect(configOf(given, "berth-deployer").PROMETHEUS_URL).toBe(url);
  });

  test("billing alone calls the payment provider, in the internet alone or at its addresses, and nobody where there is none", async () => {
    const open = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy").filter(
        ({ metadata, spec }) =>
          metadata!.name === "berth-billing" &&
          spec!.egress!.some(({ ports }) => ports?.some(({ port }) => port === 443)),
      );
    const asking = (manifests: Manifest[]) =>
      ofKind<V1Deployment>(manifests, "Deployment")
        .filter((one) => JSON.stringify(one).includes("STRIPE_SECRET_KEY"))
        .map(({ metadata }) => metadata!.name);
    expect([open(bundled), asking(bundled)]).toEqual([[], []]);
    expect(asking(external)).toEqual(["berth-billing"]);
    const reached = (manifests: Manifest[]) =>
      open(manifests)[0]!
        .spec!.egress!.filter(({ ports }) => ports?.some(({ port }) => port === 443))
        .flatMap(({ to }) => to!.map(({ ipBlock }) => ipBlock));
    expect(reached(external)).toEqual([
      { cidr: "0.0.0.0/0", except: expect.arrayContaining(["10.0.0.0/8"]) },
      { cidr: "::/0", except: ["fc00::/7", "fe80::/10"] },
    ]);
    const addresses = { "networkPolicy.paymentProviderCidrs": '["3.18.12.63/32"]' };
    expect(reached(await render("external", addresses))).toEqual([{ cidr: "3.18.12.63/32" }]);
  });

  test("the deployer alone asks registries of images, in the internet alone or at their addresses, and none where it need not", async () => {
    const rules = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy")
        .filter(({ metadata }) => metadata!.name === "berth-deployer")
        .flatMap(({ spec }) => spec!.egress!)
        .filter(({ to }) => to?.every(({ ipBlock }) => ipBlock))
        .map(({ ports, to }) => [ports!.map(({ port }) => port), to!.map(({ ipBlock }) => ipBlock!.cidr)]);
    expect(rules(bundled)).toEqual([[[443], ["0.0.0.0/0", "::/0"]]]);
    expect(configOf(bundled, "berth-deployer").IMAGE_DIGESTS).toBe("prefer");
    const own = { "apps.allowedRegistries": '["registry.example.com:5000/shop", "docker.io/library"]' };
    expect(rules(await render("bundled", own))).toEqual([
      [
        [443, 5000],
        ["0.0.0.0/0", "::/0"],
      ],
    ]);
    const near = { ...own, "networkPolicy.imageRegistryCidrs": '["10.5.0.0/24"]' };
    expect(rules(await render("bundled", near))).toEqual([[[443, 5000], ["10.5.0.0/24"]]]);
    expect(rules(await render("bundled", { "apps.imageDigests": '"off"' }))).toEqual([]);
  });

  test("notifications reaches the receivers of webhooks: in the internet alone, on 443, unless the operator allows more", async () => {
    const rules = (manifests: Manifest[]) =>
      ofKind<V1NetworkPolicy>(manifests, "NetworkPolicy")
        .filter(({ metadata }) => metadata!.name === "berth-notifications")
        .flatMap(({ spec }) => spec!.egress!)
        .filter(({ to }) => to?.every(({ ipBlock }) => ipBlock))
        .map(({ ports, to }) => [ports!.map(({ port }) => port), to!.map(({ ipBlock }) => ipBlock)]);
    expect(rules(bundled)).toEqual([
      [
        [443],
        [
          { cidr: "0.0.0.0/0", except: expect.arrayContaining(["10.0.0.0/8", "169.254.0.0/16"]) },
          { cidr: "::/0", except: ["fc00::/7", "fe80::/10"] },
        ],
      ],
    ]);
    expect(configOf(bundled, "berth-notifications").WEBHOOKS_PRIVATE).toBe("off");
    const more = await render("bundled", { webhooks: '{"private": true, "ports": [80, 443, 8080]}' });
    expect(rules(more)).toEqual([
      [
        [80, 443, 8080],
        [{ cidr: "0.0.0.0/0" }, { cidr: "::/0" }],
      ],
    ]);
    expect(configOf(more, "berth-notifications").WEBHOOKS_PRIVATE).toBe("on");
  });

  test("every path of the origin reaches the gateway", () => {
    const rules = ofKind<V1Ingress>(bundled, "Ingress").flatMap(({ spec }) => spec!.rules!);
    expect(rules.map(({ http }) => http!.paths.map(({ path, pathType }) => [path, pathType]))).toEqual([
      [["/", "Prefix"]],
    ]);
    const routes = ofKind<Manifest & { spec: { rules: object[] } }>(external, "HTTPRoute");
    expect(routes.flatMap(({ spec }) => spec.rules)).toEqual([
      { backendRefs: [{ name: "berth-gateway", port: 8080 }] },
    ]);
  });

  test("metrics are not at the gateway's public door", () => {
    expect(configOf(bundled, "berth-gateway").METRICS_PORT).toBe("9090");
    expect(JSON.stringify(ofKind(bundled, "Ingress"))).not.toContain("metrics");
    expect(JSON.stringify(ofKind(external, "HTTPRoute"))).not.toContain("9090");
  });

  test("every alert has the address of its page, and is in the chart's namespaces", () => {
    type PrometheusRule = Manifest & { spec: { groups: { rules: Alert[] }[] } };
    type Alert = { alert: string; expr: string; annotations: { runbook_url: string } };
    expect(ofKind(bundled, "PrometheusRule")).toEqual([]);
    const [rule] = ofKind<PrometheusRule>(external, "PrometheusRule");
    expect(rule!.metadata!.labels).toMatchObject({ release: "prometheus" });
    const alerts = rule!.spec.groups.flatMap(({ rules }) => rules);
    expect(alerts.length).toBeGreaterThan(6);
    for (const { alert, expr, annotations } of alerts) {
      expect(annotations.runbook_url).toBe(`https://wiki.example.com/berth/${alert}.md`);
      const ofAddons = alert === "BerthAddonVolumeFilling";
      expect(expr).toContain(ofAddons ? 'namespace=~"tenant-env-.+"' : 'namespace="platform"');
      expect(expr).not.toMatch(/NAMESPACE|PUBLIC_URL|FULLNAME|BACKUP_HOURS|APPS_PREFIX/);
    }
  });

  test("a slash at the end of publicUrl changes no alert", async () => {
    const rulesOf = async (publicUrl: string) =>
      ofKind(
        await render("external", { publicUrl: JSON.stringify(publicUrl), "oauth.resource": '""' }),
        "PrometheusRule",
      );
    expect(await rulesOf("https://berth.example.com/")).toEqual(await rulesOf("https://berth.example.com"));
  });
});
