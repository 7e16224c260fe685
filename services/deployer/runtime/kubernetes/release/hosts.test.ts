import { afterEach, describe, expect, test } from "vitest";
import { startKubeApi } from "../../../../../test/support/kube-api/server.ts";
import { eventually } from "../../../../kit/testing/testing.ts";
import { connectKube } from "../../../kube/client.ts";
import { Certificate, HTTPRoute, Ingress, Secret } from "../../../kube/kinds.ts";
import { manyOptions } from "../many/testing.ts";
import { createEnvironments } from "../namespace/namespaces.ts";
import { release } from "../observe/testing.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { createKubernetesRuntime } from "../runtime.ts";
import { certificateName, hostObjectName } from "./hosts.ts";

const app = { ...release, env: {} };
const namespace = "many-env-1";
const HOST = "shop.example.com";
const hosts = { issuer: "letsencrypt", redirectAnnotations: { redirect: "https://{target}$request_uri" } };

const stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function open(given: Partial<KubernetesRuntimeOptions> = {}) {
  const api = await startKubeApi();
  stops.push(api.stop);
  api.store.put({ apiVersion: "v1", plural: "namespaces" }, { metadata: { name: "many-home" } });
  const restart = async () => {
    for (const stop of stops.splice(1).reverse()) await stop();
    const log = { info() {}, warn() {}, error: console.error };
    const options = manyOptions({ kube: connectKube(api.config), log, compareMs: 50, hosts, ...given });
    const runtime = createKubernetesRuntime(options, createEnvironments(options));
    stops.push(runtime.stop);
    await runtime.start();
    return runtime;
  };
  const find = (kind: { apiVersion: string; plural: string }, name: string) =>
    api.store.find({ apiVersion: kind.apiVersion, plural: kind.plural, namespace }, name);
  return { api, restart, find, runtime: await restart() };
}

describe("further host names of a service", () => {
  test("have an Ingress each with a certificate of their own, which the release's does not know of", async () => {
    const { runtime, find, api } = await open({
      ingress: { enabled: true, annotations: { a: "b", "cert-manager.io/cluster-issuer": "others" } },
    });
    expect(await runtime.setHosts(app.serviceId, [{ host: HOST }])).toBeUndefined();
    await runtime.apply(app);
    const own = find(Ingress, app.names.service)?.metadata?.resourceVersion;
    const set = () => runtime.setHosts(app.serviceId, [{ host: HOST }]);
    expect(await set()).toEqual([{ host: HOST, certificate: "pending" }]);
    const name = hostObjectName(HOST);
    const made = find(Ingress, name)!;
    expect(made.metadata?.annotations).toEqual({ a: "b", "cert-manager.io/cluster-issuer": "letsencrypt" });
    expect(made.spec).toMatchObject({
      rules: [{ host: HOST }],
      tls: [{ hosts: [HOST], secretName: certificateName(name) }],
    });
    expect(made.metadata?.ownerReferences).toMatchObject([{ kind: "Deployment" }]);
    expect(find(Ingress, app.names.service)?.metadata?.resourceVersion).toBe(own);

    const scope = { apiVersion: Certificate.apiVersion, plural: Certificate.plural, namespace };
    const conditions = [{ type: "Issuing", status: "False", message: "no such host" }];
    api.store.put(scope, { metadata: { name: certificateName(name) }, status: { conditions } });
    expect((await set())?.[0]).toMatchObject({
      certificate: "pending",
      message: expect.stringContaining("no such host"),
    });
    api.store.put(
      { apiVersion: "v1", plural: Secret.plural, namespace },
      { metadata: { name: certificateName(name) } },
    );
    expect(await set()).toEqual([{ host: HOST, certificate: "issued" }]);

    await runtime.setHosts(app.serviceId, []);
    expect(find(Ingress, name)).toBeUndefined();
    expect(find(Secret, certificateName(name))).toBeUndefined();
    expect(find(Ingress, app.names.service)).toBeDefined();
  });

  test("redirect by annotations of the Ingress, and by a filter of the HTTPRoute", async () => {
    const parentRefs = [{ name: "berth", namespace: "gateways" }];
    const httpRoute = { enabled: true, parentRefs, annotations: {}, timeouts: {} };
    const { runtime, find } = await open({ httpRoute });
    await runtime.apply(app);
    await runtime.setHosts(app.serviceId, [{ host: `www.${HOST}`, redirectTo: HOST }]);
    const name = hostObjectName(`www.${HOST}`);
    expect(find(Ingress, name)?.metadata?.annotations).toMatchObject({
      redirect: `https://${HOST}$request_uri`,
    });
    expect(find(HTTPRoute, name)?.spec).toEqual({
      parentRefs,
      hostnames: [`www.${HOST}`],
      rules: [
        { filters: [{ type: "RequestRedirect", requestRedirect: { hostname: HOST, statusCode: 301 } }] },
      ],
    });
  });

  test("without an issuer are served without a certificate, and that is said", async () => {
    const { runtime, find } = await open({ hosts: { redirectAnnotations: {} } });
    await runtime.apply(app);
    const [status] = (await runtime.setHosts(app.serviceId, [{ host: HOST }]))!;
    expect(status).toMatchObject({
      certificate: "none",
      message: expect.stringContaining("no certificates"),
    });
    expect(find(Ingress, hostObjectName(HOST))?.spec).not.toHaveProperty("tls");
  });

  test("stay through releases and another process, are put right when somebody changes or removes them, and go with the service", async () => {
    const { runtime, restart, find, api } = await open();
    await runtime.apply(app);
    await runtime.setHosts(app.serviceId, [{ host: HOST }]);
    const next = await restart();
    await next.apply({ ...app, version: 3 });
    const name = hostObjectName(HOST);
    expect((await next.status(app.serviceId))?.hosts).toEqual([{ host: HOST }]);
    const scope = { apiVersion: Ingress.apiVersion, plural: Ingress.plural, namespace };
    const putRight = async () => {
      await eventually("it is noticed", async () => (await next.status(app.serviceId))?.drifted);
      await next.apply({ ...app, version: 3 });
      expect(find(Ingress, name)?.spec).toMatchObject({ rules: [{ host: HOST }] });
      expect((await next.status(app.serviceId))?.drifted).toBeUndefined();
    };
    api.store.merge(scope, name, { spec: { rules: [{ host: "elsewhere.example.com" }] } });
    await putRight();
    api.store.remove(scope, name);
    await putRight();
    await next.remove(app.serviceId);
    expect(find(Ingress, name)).toBeUndefined();
  });

  test("that a killed process was removing are removed by the next one", async () => {
    const { runtime, restart, find, api } = await open();
    await runtime.apply(app);
    await runtime.setHosts(app.serviceId, [{ host: HOST }]);
    let dies = true;
    api.beforeEach(({ verb, plural }) => {
      if (dies && verb === "delete" && plural === "ingresses") throw new Error("killed");
    });
    await expect(runtime.setHosts(app.serviceId, [])).rejects.toThrow();
    dies = false;
    const next = await restart();
    expect(await next.setHosts(app.serviceId, [])).toEqual([]);
    expect(find(Ingress, hostObjectName(HOST))).toBeUndefined();
  });
});
