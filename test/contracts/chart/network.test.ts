import type { V1Deployment, V1Namespace, V1NetworkPolicy } from "@kubernetes/client-node";
import { register } from "prom-client";
import { beforeAll, describe, expect, test } from "vitest";
import { programs } from "../../../deploy/local/processes/programs.ts";
import { startTelemetry } from "../../../services/kit/telemetry.ts";
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
      const known = new RegExp([...processes, "prepare", "rotate", "berth-builds"].join("|"), "g");
      return [...new Set(JSON.stringify(from).match(known))].sort();
    };
    expect(peers("identity")).toEqual(["gateway"]);
    expect(peers("deployer")).toEqual(["gateway", "variables"]);
    expect(peers("postgres")).toEqual([...processes, "prepare", "rotate"].sort());
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
    expect(configOf(external, "berth-identity").MAIL_FROM).toBe("Berth <berth@example.com>");
  });

  test("metrics are not at the gateway's public door", () => {
    expect(configOf(bundled, "berth-gateway").METRICS_PORT).toBe("9090");
    expect(JSON.stringify(ofKind(bundled, "Ingress"))).not.toContain("metrics");
    expect(JSON.stringify(ofKind(external, "HTTPRoute"))).not.toContain("9090");
  });

  test("every metric on the dashboard exists", async () => {
    await startTelemetry("test", undefined);
    await Promise.all([
      import("../../../gateway/http/request-metrics.ts"),
      import("../../../gateway/streams/sse-bridge.ts"),
    ]);
    const dashboard = JSON.parse(configOf(external, "berth-dashboard")["berth.json"]!);
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
