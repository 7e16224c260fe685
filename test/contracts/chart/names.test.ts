import type { V1StatefulSet } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { namespaceOf } from "../../../services/deployer/kube/names.ts";
import { newId } from "../../../services/kit/ids.ts";
import { configOf, helmProgram, type Manifest, ofKind, podsOf, render, renderAs } from "./render.ts";

// Names that operators choose: of the release, its namespace, and of objects that the values name.

if (!helmProgram) console.log("Names are not tested: there is no helm on the PATH, in HELM, or built.");

/** Texts that YAML takes for a number, a truth value or nothing, unless they are quoted. */
const LIKE_VALUES = ["123", "1e3", "true", "null"];

/** Every object and array in a value, with the path to it. */
function* within(value: unknown, path = ""): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== "object" || value === null) return;
  yield [path, value as Record<string, unknown>];
  for (const [key, inner] of Object.entries(value)) yield* within(inner, `${path}.${key}`);
}

/** Members that name something, or are labels, and are no text. */
function noTexts(manifests: Manifest[]): string[] {
  const names = /^(name|namespace|secretName|\w+ClassName|serviceAccountName|key)$/;
  return manifests.flatMap((one) =>
    [...within(one, one.kind)].flatMap(([path, value]) =>
      Object.entries(value)
        .filter(([key]) => names.test(key) || /\.(labels|matchLabels|nodeSelector|data)$/.test(path))
        .filter(([, inner]) => typeof inner !== "string" && typeof inner !== "object")
        .concat(Object.entries(value).filter(([key, inner]) => names.test(key) && inner === null))
        .map(([key, inner]) => `${path}.${key}: ${inner}`),
    ),
  );
}

describe.skipIf(!helmProgram)("the names of", () => {
  test.each(LIKE_VALUES)("a release and its namespace may be %s", async (name) => {
    const manifests = await renderAs({ release: `berth-${name}`, namespace: name }, "bundled", {
      nameOverride: JSON.stringify(name),
    });
    expect(noTexts(manifests)).toEqual([]);
    const spaces = new Set(manifests.map(({ metadata }) => metadata!.namespace));
    expect(spaces.has(name)).toBe(true);
  });

  test.each(LIKE_VALUES)("what the values name may be %s", async (name) => {
    const text = JSON.stringify(name);
    const secrets = ["keys", "owner", "smtp", "billing", "database", "database.admin", "nats", "objectStore"];
    const names = [
      ...secrets.map((part) => `${part}.existingSecret`),
      ...["ingress.className", "ingress.tlsSecret", "extraCaConfigMap", "builds.namespace", "placement.arch"],
      ...["database.admin.passwordKey", "database.server.storage.className", "defaults.priorityClassName"],
      ...["placement.platform.runtimeClassName", "fullnameOverride"],
    ].filter((value) => !(value === "fullnameOverride" && /^\d/.test(name)));
    const set = Object.fromEntries(names.map((value) => [value, text]));
    const backup = {
      enabled: true,
      endpoint: "https://s3.example.com",
      bucket: "backups",
      existingSecret: name,
    };
    const more = { backup: JSON.stringify(backup), "smtp.from": '"berth@example.com"' };
    for (const registry of ['""', text]) {
      const given: Record<string, string> = registry === text ? { "registry.existingSecret": text } : {};
      expect(noTexts(await render("bundled", { ...set, ...more, ...given }))).toEqual([]);
    }
  });

  test.each([
    ["that begins with a digit", { release: "7" }, {}, "fullnameOverride: 7-berth"],
    ["with a dot", { release: "berth.staging" }, {}, "fullnameOverride: berth.staging"],
    ["with a dot in its override", {}, { fullnameOverride: '"berth.eu"' }, "fullnameOverride: berth.eu"],
    [
      "with no room for namespaces",
      { release: "our-production-platform-eu-west" },
      {},
      "apps.namespacePrefix: ",
    ],
    [
      "with no room for the object store",
      {},
      { fullnameOverride: JSON.stringify("b".repeat(40)), "apps.namespacePrefix": '"apps"' },
      "set at most 39 characters",
    ],
  ])("a release %s are refused", async (_what, named, set, sentence) => {
    const at = { release: "berth", namespace: "platform", ...named };
    await expect(renderAs(at, "bundled", set as Record<string, string>)).rejects.toThrow(sentence);
  });

  test("objects are short enough for the longest name of a release that is not refused", async () => {
    const release = "berth".padEnd(32, "x");
    const manifests = await renderAs({ release, namespace: "platform" }, "bundled");
    const prefix = configOf(manifests, `${release}-deployer`).KUBE_NAMESPACE_PREFIX!;
    expect(namespaceOf(prefix, newId("env")).length).toBe(63);
    const longer = { release: `${release}x`, namespace: "platform" };
    await expect(renderAs(longer, "bundled")).rejects.toThrow("set at most 30 characters here");
    const own = await renderAs({ release: "berth".padEnd(39, "x"), namespace: "platform" }, "bundled", {
      "apps.namespacePrefix": '"apps"',
    });
    // Of its pods, a StatefulSet makes a label of its name and 11 more characters.
    const lengths = ofKind<V1StatefulSet>(own, "StatefulSet").map(({ metadata }) => metadata!.name!.length);
    expect(Math.max(...lengths)).toBe(52);
  });

  test.each([
    ["commonLabels", { commonLabels: '{"app.kubernetes.io/name":"x"}' }],
    ["processes.gateway.podLabels", { "defaults.podLabels": '{"app.kubernetes.io/component":"x"}' }],
    ["processes.gateway.podLabels", { "processes.gateway.podLabels": '{"app.kubernetes.io/instance":"x"}' }],
  ] as const)("labels that the chart sets itself are refused in %s", async (value, set) => {
    await expect(render("bundled", set)).rejects.toThrow(
      new RegExp(`${value}: leave out .*, which the chart sets itself`),
    );
  });
});

describe.skipIf(!helmProgram)("large numbers", () => {
  test("reach processes and pods as they are", async () => {
    const uid = 1_000_640_000;
    const manifests = await render("bundled", {
      "rateLimits.registrationsDaily": "1000000",
      "rateLimits.reads": "25000000",
      podSecurity: `{"runAsUser":${uid},"runAsGroup":${uid}}`,
      ...Object.fromEntries(
        ["database", "nats", "objectStore", "registry"].map((server) => [
          `${server}.server.runAsUser`,
          `${uid}`,
        ]),
      ),
      "apps.addons.runAsUser": `${uid}`,
    });
    const gateway = configOf(manifests, "berth-gateway");
    expect([gateway.RATE_LIMIT_READS, gateway.RATE_LIMIT_REGISTRATIONS_DAILY]).toEqual([
      "25000000",
      "1000000",
    ]);
    expect(configOf(manifests, "berth-deployer").ADDON_USER).toBe(String(uid));
    const users = podsOf(manifests).map(({ spec }) => spec.securityContext!.runAsUser);
    expect(new Set(users)).toEqual(new Set([uid]));
  });
});
