import type { V1Container, V1Secret } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { pullKeys } from "../../../services/deployer/images/pulls/logins.ts";
import {
  configOf,
  GENERATED,
  helmProgram,
  type Manifest,
  ofKind,
  podsOf,
  readDeployerConfig,
  render,
  renderInstall,
} from "./render.ts";

describe.skipIf(!helmProgram)("the registry's logins", () => {
  test("builds push with one, and those of accounts are made of keys that the deployer and the door share", async () => {
    const bundled = await renderInstall("bundled", GENERATED);
    const secrets = ofKind<V1Secret>(bundled, "Secret");
    expect(usersIn(secrets, "berth-registry-login")["berth-registry.platform:5000"]).toBe("berth");
    const keys = { name: "berth-registry", key: "pull-keys" };
    expect(secretsOf(containerOf(bundled, "berth-deployer", "deployer"))).toMatchObject({
      REGISTRY_PULL_KEYS: keys,
    });
    expect(secretsOf(containerOf(bundled, "berth-registry", "door"))).toEqual({
      REGISTRY_PULL_KEYS: keys,
      NODES_PASSWORD: { ...keys, key: "pull-password" },
    });
    const key = secrets.find(({ metadata }) => metadata!.name === "berth-registry")!.data!["pull-keys"]!;
    expect(pullKeys.parse(Buffer.from(key, "base64").toString())).toHaveLength(1);
  });

  test("a deployer of an older chart finds the one with which nodes pulled, and namespaces that hold it go on", async () => {
    const bundled = await renderInstall("bundled", GENERATED);
    expect(deployersLogins(bundled)).toEqual({ push: "berth-registry-login", pull: "berth-registry-pull" });
    const secrets = ofKind<V1Secret>(bundled, "Secret");
    expect(usersIn(secrets, "berth-registry-pull")).toEqual({ "localhost:30500": "nodes" });
  });

  test("nodes reach the registry through the door alone", async () => {
    for (const manifests of [await render("bundled"), await renderInstall("bundled", GENERATED)]) {
      const door = containerOf(manifests, "berth-registry", "door");
      expect([door.args, door.ports]).toEqual([["pulls"], [{ name: "pulls", containerPort: 5001 }]]);
      expect(containerOf(manifests, "berth-registry", "pulls").ports).toBeUndefined();
      expect(configOf(manifests, "berth-registry")["pulls.yml"]).toMatch(/addr: "127\.0\.0\.1:5002"\n/);
    }
  });

  test("a login that the operator gives is the one that pushes, and environments hold those of accounts", async () => {
    const given = await render("bundled");
    expect(deployersLogins(given)).toEqual({ push: "my-registry" });
    const { registryAccountPulls, registryPullKeys } = readDeployerConfig(given);
    expect([registryAccountPulls, registryPullKeys]).toEqual(["true", undefined]);
    for (const container of [
      containerOf(given, "berth-deployer", "deployer"),
      ...podOf(given, "berth-registry").containers,
    ])
      expect(Object.keys(secretsOf(container)).filter((name) => /PULL|NODES/.test(name))).toEqual([]);
    expect(JSON.stringify(given)).not.toContain("berth-registry-login");
  });

  test("with a registry of one's own, nodes pull with the login for pulls if there is one", async () => {
    const own = await render("external", { "registry.pullSecret": '"my-pulls"' });
    expect(deployersLogins(own)).toEqual({ push: "my-registry", pull: "my-pulls" });
    expect(deployersLogins(await render("external"))).toEqual({ push: "my-registry" });
  });
});

/** Returns the pod of a Deployment or StatefulSet. */
const podOf = (manifests: Manifest[], name: string) =>
  podsOf(manifests).find((pod) => pod.name.endsWith(`/${name}`))!.spec;

const containerOf = (manifests: Manifest[], pod: string, name: string) =>
  podOf(manifests, pod).containers.find((one) => one.name === name)!;

/** Returns the variables of a container that are in Secrets, and where. */
function secretsOf({ env = [] }: V1Container) {
  return Object.fromEntries(
    env.flatMap(({ name, valueFrom }) => {
      const { name: secret, key } = valueFrom?.secretKeyRef ?? {};
      return key === undefined ? [] : [[name, { name: secret, key }]];
    }),
  );
}

/** Returns the names of the Secrets that the deployer reads the logins for pushes and for pulls from. */
function deployersLogins(manifests: Manifest[]): { push?: string; pull?: string } {
  const { REGISTRY_AUTH, REGISTRY_PULL_AUTH } = configOf(manifests, "berth-deployer");
  const { containers, volumes } = podOf(manifests, "berth-deployer");
  const secretAt = (path: string) => {
    const mount = containers[0]!.volumeMounts!.find(({ mountPath }) => path.startsWith(`${mountPath}/`));
    return volumes!.find(({ name }) => name === mount?.name)?.secret?.secretName;
  };
  return {
    push: secretAt(REGISTRY_AUTH!),
    ...(REGISTRY_PULL_AUTH !== undefined && { pull: secretAt(REGISTRY_PULL_AUTH) }),
  };
}

/** Returns the user at each registry in a docker configuration. */
function usersIn(secrets: V1Secret[], name: string): Record<string, string> {
  const { data } = secrets.find(({ metadata }) => metadata!.name === name)!;
  const decode = (text: string) => Buffer.from(text, "base64").toString();
  const { auths } = JSON.parse(decode(data![".dockerconfigjson"]!)) as {
    auths: Record<string, { auth: string }>;
  };
  const users = Object.entries(auths).map(([host, { auth }]) => [host, decode(auth).split(":")[0]]);
  return Object.fromEntries(users);
}
