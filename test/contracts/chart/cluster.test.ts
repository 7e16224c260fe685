import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Deployment } from "@kubernetes/client-node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type KubeApi, startKubeApi } from "../../support/kube-api/server.ts";
import type { Given } from "../../support/kube-api/store.ts";
import { configOf, helmProgram, ofKind, putNamespace, render } from "./render.ts";

const GATEWAY_API = "gateway.networking.k8s.io/v1";
/** Apps behind a Gateway alone. */
const BEHIND_GATEWAY = {
  "apps.ingress.enabled": "false",
  "apps.httpRoute": JSON.stringify({
    enabled: true,
    parentRefs: [{ name: "public", namespace: "gateways" }],
    namespaceLabels: { "kubernetes.io/metadata.name": "gateways" },
  }),
};

describe.skipIf(!helmProgram)(
  "what the values say of the cluster is compared with it at the installation:",
  () => {
    let api: KubeApi;
    let folder: string;

    beforeEach(async () => {
      api = await startKubeApi();
      folder = await mkdtemp(join(tmpdir(), "berth-chart-"));
      await writeFile(join(folder, "kubeconfig"), api.config.exportConfig());
      for (const name of ["default", "platform", "gateways", "ingress-nginx"]) putNamespace(api, name);
    });
    afterEach(async () => {
      await api?.stop();
      await rm(folder, { recursive: true, force: true });
    });

    function put(apiVersion: string, kind: string, object: Given): void {
      const plural = `${kind.toLowerCase()}${kind.endsWith("s") ? "es" : "s"}`;
      const { namespace } = object.metadata;
      api.store.put({ apiVersion, plural, ...(namespace && { namespace }) }, { apiVersion, kind, ...object });
    }
    const addGateway = (name: string) =>
      put(GATEWAY_API, "Gateway", { metadata: { name, namespace: "gateways" } });

    /** Returns what is told when the chart is installed with these values; nothing when it is accepted. */
    async function told(set: Record<string, string>, ...more: string[]): Promise<string> {
      const asking = ["--dry-run=server", "--kubeconfig", join(folder, "kubeconfig")];
      return render("bundled", set, ...asking, ...more).then(() => "", String);
    }
    const withRoutes = ["--api-versions", `${GATEWAY_API}/HTTPRoute`];

    test("the Gateway API that is not installed", async () => {
      expect(await told(BEHIND_GATEWAY)).toContain(
        "apps.httpRoute.enabled: this cluster does not have the Gateway API; install it, or set apps.ingress.enabled",
      );
    });

    test("a Gateway that is not there, until it is", async () => {
      addGateway("other");
      expect(await told(BEHIND_GATEWAY, ...withRoutes)).toContain(
        "apps.httpRoute.parentRefs: there is no Gateway public in the namespace gateways.",
      );
      addGateway("public");
      expect(await told(BEHIND_GATEWAY, ...withRoutes)).toBe("");
    });

    test("labels from which no request of a Gateway would come", async () => {
      addGateway("public");
      const set = { ...BEHIND_GATEWAY, "apps.httpRoute.namespaceLabels": '{"team": "doors"}' };
      expect(await told(set, ...withRoutes)).toMatch(
        /apps\.httpRoute\.namespaceLabels: no namespace .*team.*doors/,
      );
    });

    test("a class of the Ingress that is not there, until it is", async () => {
      const set = { "apps.ingress.className": '"nginx"' };
      expect(await told(set)).toContain("apps.ingress.className: this cluster has no IngressClass nginx");
      put("networking.k8s.io/v1", "IngressClass", { metadata: { name: "nginx" } });
      expect(await told(set)).toBe("");
    });

    test("a process for which autoscaling is turned on keeps its pods", async () => {
      const about = { metadata: { name: "berth-gateway", namespace: "platform" }, spec: { replicas: 5 } };
      put("apps/v1", "Deployment", about);
      const asking = ["--dry-run=server", "--kubeconfig", join(folder, "kubeconfig")];
      const manifests = await render("bundled", { "defaults.autoscaling.enabled": "true" }, ...asking);
      const replicas = ofKind<V1Deployment>(manifests, "Deployment").map(({ metadata, spec }) => [
        metadata!.name,
        spec!.replicas,
      ]);
      expect(Object.fromEntries(replicas)).toMatchObject({ "berth-gateway": 5, "berth-identity": undefined });
    });

    test("only when apps get other doors: an upgrade that leaves them alone works while a Gateway is away", async () => {
      const data = configOf(await render("bundled", BEHIND_GATEWAY), "berth-deployer");
      put("v1", "ConfigMap", { metadata: { name: "berth-deployer", namespace: "platform" }, data });
      expect(await told(BEHIND_GATEWAY, ...withRoutes)).toBe("");
      const others = {
        ...BEHIND_GATEWAY,
        "apps.httpRoute.parentRefs": '[{"name":"next","namespace":"gateways"}]',
      };
      expect(await told(others, ...withRoutes)).toContain(
        "there is no Gateway next in the namespace gateways.",
      );
    });
  },
);
