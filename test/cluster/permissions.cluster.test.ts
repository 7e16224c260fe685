import { KubeConfig } from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { managed } from "../../services/deployer/kube/names.ts";
import { eventually } from "../../services/kit/testing/testing.ts";
import { findPrefix } from "./prefix.ts";

const { namespace } = inject("platform")!;
let kube: Kube;
let prefix: string;

beforeAll(async () => {
  kube = connectKube();
  prefix = await findPrefix(kube, namespace);
});

describe("the deployer's rights", () => {
  let deployer: ReturnType<typeof impersonate>;
  let own: string;

  beforeAll(async () => {
    own = `${prefix}-env-of-a-test`;
    deployer = impersonate(`system:serviceaccount:${namespace}:${prefix}-deployer`);
  });
  afterAll(() => kube.remove(kinds.Namespace, own));

  const space = (name: string, labels: Record<string, string>) => ({ metadata: { name, labels } });
  const restricted = { ...managed, "pod-security.kubernetes.io/enforce": "restricted" };
  const binding = (where: string, role = `${prefix}-environment`, subject = `${prefix}-deployer`) => ({
    metadata: { name: "berth-deployer", namespace: where },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
    subjects: [{ kind: "ServiceAccount", name: subject, namespace }],
  });

  test("reach into namespaces that it made, once it has bound its role there", async () => {
    await deployer.apply(kinds.Namespace, space(own, restricted));
    expect(await refusal(deployer.list(kinds.Secret, { namespace: own }))).toMatch("cannot list resource");
    await deployer.apply(kinds.RoleBinding, binding(own));
    await eventually("the role holds", async () => {
      const answer = await refusal(deployer.list(kinds.Secret, { namespace: own }));
      return answer === "";
    });
  });

  test.each([
    ["without Berth's label", (name: string) => space(name, {}), "only namespaces that it made"],
    ["without Pod Security", (name: string) => space(name, managed), 'enforce Pod Security \\"restricted\\"'],
    ["of another prefix", () => space("somebody-env-else", restricted), "only namespaces that it made"],
    ["that is the cluster's", () => space("kube-system", restricted), "only namespaces that it made"],
  ])("do not make or take a namespace %s", async (_what, make, sentence) => {
    expect(await refusal(deployer.apply(kinds.Namespace, make(`${prefix}-env-another`)))).toContain(sentence);
  });

  test("do not bind another role, another account, or anything elsewhere", async () => {
    await deployer.apply(kinds.Namespace, space(own, restricted));
    const bind = (object: ReturnType<typeof binding>) => refusal(deployer.create(kinds.RoleBinding, object));
    expect(await bind(binding(own, "cluster-admin"))).toMatch(/not currently held|only the role/);
    expect(await bind(binding(own, undefined, "default"))).toContain("only to itself");
    expect(await bind(binding("kube-system"))).toContain("only in namespaces that it made");
    expect(await bind(binding(namespace))).toContain("only in namespaces that it made");
  });

  test("do not read Secrets of the platform or of the cluster", async () => {
    for (const where of [{ namespace }, { namespace: "kube-system" }, {}])
      expect(await refusal(deployer.list(kinds.Secret, where))).toContain("cannot list resource");
  });

  test("do not delete what they did not make", async () => {
    for (const name of [namespace, "kube-node-lease"])
      expect(await refusal(deployer.remove(kinds.Namespace, name))).toContain("only namespaces that it made");
  });
});

/** Returns a client that acts as another account. */
function impersonate(user: string): Kube {
  const config = new KubeConfig();
  config.loadFromDefault();
  const users = config.users.map((one) => ({ ...one, impersonateUser: user }));
  config.loadFromOptions({ ...config, users });
  return connectKube(config);
}

/** Returns the API's refusal; "" when it does what was asked. */
async function refusal(doing: Promise<unknown>): Promise<string> {
  return doing.then(
    () => "",
    (error: { body?: unknown; message: string }) => String(error.body ?? error.message),
  );
}
