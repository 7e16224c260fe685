import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { RunSettings } from "../../deploy/cluster/run/run-settings.ts";
import { sbomPath } from "../../deploy/images/images.ts";
import { readRun } from "../support/cluster-run.ts";
import { connectKubectl, type Kubectl } from "./kubectl.ts";

let run: RunSettings;
let kube: Kubectl;
let space: { name: string; remove: () => Promise<unknown> };

beforeAll(async () => {
  run = await readRun();
  kube = await connectKubectl();
  space = await kube.namespace();
  const level = "pod-security.kubernetes.io/enforce=restricted";
  await kube.call("label", "namespace", space.name, level);
});

afterAll(() => space?.remove());

/** Runs an image under the cluster's strictest rules until it exits; returns exit code and output. */
async function runImage(name: string, spec: { image: string; command?: string[]; args?: string[] }) {
  const securityContext = {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    runAsNonRoot: true,
    capabilities: { drop: ["ALL"] },
    seccompProfile: { type: "RuntimeDefault" },
  };
  await kube.apply({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: space.name },
    spec: { restartPolicy: "Never", containers: [{ name: "main", securityContext, ...spec }] },
  });
  const ended = "jsonpath={.status.containerStatuses[0].state.terminated}";
  await kube.call("wait", "-n", space.name, `--for=${ended}`, "--timeout=120s", `pod/${name}`);
  const state = JSON.parse(await kube.call("get", "pod", "-n", space.name, name, "-o", ended));
  return { code: state.exitCode as number, output: await kube.call("logs", "-n", space.name, name) };
}

/** Returns the labels of an image in the registry. */
async function labelsOf(image: string): Promise<Record<string, string>> {
  const [name, tag] = image.split(":");
  const accept =
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json";
  const at = `http://${run.registry.push}/v2/${name}`;
  const manifest = (await (await fetch(`${at}/manifests/${tag}`, { headers: { accept } })).json()) as {
    config: { digest: string };
  };
  const config = await (await fetch(`${at}/blobs/${manifest.config.digest}`)).json();
  return (config as { config: { Labels: Record<string, string> } }).config.Labels;
}

describe.each(["platform", "builder"] as const)("the image of the %s", (which) => {
  const image = () => inject("clusterImages")[which];

  test("lists what is in it", async () => {
    const { code, output } = await runImage(`${which}-sbom`, { image: image(), command: ["cat", sbomPath] });
    expect(code).toBe(0);
    const { bomFormat, components } = JSON.parse(output) as {
      bomFormat: string;
      components: { purl: string }[];
    };
    const named = (start: string) => components.filter(({ purl }) => purl.startsWith(start)).length;
    expect(bomFormat).toBe("CycloneDX");
    expect(named("pkg:npm/fastify@")).toBe(1);
    expect(named("pkg:generic/node@24.")).toBe(1);
    expect(named("pkg:deb/debian/libc6@")).toBe(1);
    expect(named("pkg:deb/debian/buildah@")).toBe(which === "builder" ? 1 : 0);
    expect(named("pkg:npm/vitest@")).toBe(0);
  });

  test("says its title, version, revision and licence", async () => {
    const labels = await labelsOf(run.images[which]);
    const own = (name: string) => labels[`org.opencontainers.image.${name}`];
    expect([own("title"), own("licenses")]).toEqual([expect.stringMatching(/^Berth/), "Apache-2.0"]);
    expect(own("version")).toMatch(/^\d+\.\d+\.\d+$/);
    expect(own("revision")).toMatch(/^[0-9a-f]{40}(-dirty)?$/);
  });
});

test("a service that has no configuration says what it needs", async () => {
  const { code, output } = await runImage("identity", {
    image: inject("clusterImages").platform,
    args: ["identity"],
  });
  expect([code, output]).toEqual([78, expect.stringContaining("DATABASE_URL")]);
});

test("a name that nothing has is answered with those that there are", async () => {
  const { code, output } = await runImage("typo", {
    image: inject("clusterImages").platform,
    args: ["identiti"],
  });
  expect(code).toBe(64);
  expect(output).toMatch(/usage: berth gateway\|.*deployer.*identity/);
});
