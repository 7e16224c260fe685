import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { KubernetesObject, V1Ingress } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import type { HTTPRouteSpec } from "../../../services/deployer/kube/kinds.ts";
import { chartFolder, ciValues, helm, helmProgram, ofKind, readDeployerConfig, render } from "./render.ts";

const folder = join(chartFolder, "presets");
/** What a preset leaves to those who use it. */
const given = { "apps.ingressFromCidrs": '["10.1.0.0/16"]', "registry.push": '"registry.example.com"' };
const presets = await readdir(folder);

const renderPreset = (preset: string, set: Record<string, string> = given) =>
  render("bundled", set, "-f", join(folder, preset));

describe.skipIf(!helmProgram)("a preset", () => {
  test.each(presets)(
    "%s is accepted with any other values, by the chart and by the deployer",
    async (preset) => {
      const linted = await helm(
        ...["lint", chartFolder, "--kube-version", "1.36.0", "-f", ciValues("bundled")],
        ...["-f", join(folder, preset)],
        ...Object.entries(given).flatMap(([key, value]) => ["--set-json", `${key}=${value}`]),
      );
      expect(linted).toContain("0 chart(s) failed");
      readDeployerConfig(await renderPreset(preset));
    },
  );

  test.each([
    ["ingress-nginx.yaml", "nginx", "proxy-body-size", "proxy-read-timeout"],
    ["traefik.yaml", "traefik", "router.entrypoints"],
    ["alb.yaml", "alb", "group.name", "load-balancer-attributes"],
  ])(
    "%s gives the platform and its apps one class and the same annotations",
    async (preset, className, ...named) => {
      const manifests = await renderPreset(preset);
      const { ingressClass, ingressAnnotations } = readDeployerConfig(manifests);
      expect(ingressClass).toBe(className);
      for (const name of named) expect(Object.keys(ingressAnnotations).join()).toContain(name);
      for (const { metadata, spec } of ofKind<V1Ingress>(manifests, "Ingress")) {
        expect(spec!.ingressClassName).toBe(className);
        expect(metadata!.annotations).toEqual(ingressAnnotations);
      }
    },
  );

  test.each(["gateway-api.yaml", "gke.yaml"])(
    "%s puts the platform and its apps behind one Gateway",
    async (preset) => {
      const manifests = await renderPreset(preset);
      const {
        ingress,
        httpRoutes,
        httpRouteParents,
        httpRouteTimeouts: timeouts,
      } = readDeployerConfig(manifests);
      expect({ ingress, httpRoutes }).toEqual({ ingress: "off", httpRoutes: "on" });
      expect(ofKind(manifests, "Ingress")).toEqual([]);
      const routes = ofKind<KubernetesObject & { spec: HTTPRouteSpec }>(manifests, "HTTPRoute");
      expect(routes).toHaveLength(1);
      expect(routes[0]!.spec.parentRefs).toEqual(httpRouteParents);
      expect(routes[0]!.spec.rules[0]!.timeouts ?? {}).toEqual(timeouts);
    },
  );

  test("alb.yaml asks where its requests come from, as nobody else can know", async () => {
    await expect(renderPreset("alb.yaml", {})).rejects.toThrow("apps.ingressFromCidrs: give the addresses");
  });
});
