import {
  BatchV1Api,
  CoreV1Api,
  KubeConfig,
  type V1ConfigMap,
  type V1Container,
  type V1Job,
  type V1PodSpec,
} from "@kubernetes/client-node";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { jobBuilderFields, jobBuilderOptions } from "../../services/deployer/builder/job/config.ts";
import { type JobSettings, toJob } from "../../services/deployer/builder/job/job-manifest.ts";
import type { JobRequest } from "../../services/deployer/builder/job/job-request.ts";
import { connectKube, type Kube } from "../../services/deployer/kube/client.ts";
import * as kinds from "../../services/deployer/kube/kinds.ts";
import { managed } from "../../services/deployer/kube/names.ts";
import { placementFields } from "../../services/deployer/kube/pods/placement.ts";
import { readConfig } from "../../services/kit/process/config.ts";
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
    [
      "of another installation",
      (name: string) => space(name, { ...restricted, "berth.dev/installation": "another" }),
      "only namespaces that it made",
    ],
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

describe("the builds' namespace", () => {
  let settings: JobSettings;

  beforeAll(async () => {
    const { data } = (await kube.get<V1ConfigMap>(kinds.ConfigMap, `${prefix}-deployer`, namespace))!;
    settings = jobBuilderOptions(readConfig(data!, { ...jobBuilderFields, ...placementFields }));
  });

  /** Returns the Job that the deployer makes for a build, with another pod. */
  function jobWith(change: (pod: V1PodSpec, container: V1Container) => void): V1Job {
    const request = { buildId: "bld_of_a_test", serviceId: "svc_1", timeoutMs: 1_000 } as JobRequest;
    const job: V1Job = toJob(settings, request);
    const pod = job.spec!.template.spec!;
    change(pod, pod.containers[0]!);
    return job;
  }

  /** Returns what the cluster says to the deployer, who asks for a Job, and to its operator, who asks for a pod. */
  async function refusals(job: V1Job): Promise<string[]> {
    const deployer = impersonate(`system:serviceaccount:${namespace}:${prefix}-deployer`);
    const where = { namespace: settings.namespace, dryRun: "All" };
    const { metadata, spec } = job.spec!.template;
    const pod = { metadata: { ...metadata, name: "of-a-test" }, spec };
    return Promise.all([
      refusal(deployer.config.makeApiClient(BatchV1Api).createNamespacedJob({ ...where, body: job })),
      refusal(kube.config.makeApiClient(CoreV1Api).createNamespacedPod({ ...where, body: pod })),
    ]);
  }

  test("admits the pod that Berth makes, also with what a cluster adds", async () => {
    expect(await refusals(jobWith(() => {}))).toEqual(["", ""]);
    const levelled = (pod: V1PodSpec) =>
      void Object.assign(pod.securityContext!, { seLinuxOptions: { level: "s0:c26,c5" } });
    expect(await refusals(jobWith(levelled))).toEqual(["", ""]);
  });

  test.each<[string, Parameters<typeof jobWith>[0], string]>([
    ["the node's network", (pod) => Object.assign(pod, { hostNetwork: true }), "nothing of the node"],
    ["the node's processes", (pod) => Object.assign(pod, { hostPID: true }), "nothing of the node"],
    [
      "a container before it",
      (pod, container) => Object.assign(pod, { initContainers: [{ ...container, name: "before" }] }),
      "nothing of the node",
    ],
    ["another account", (pod) => Object.assign(pod, { serviceAccountName: "deployer" }), "service account"],
    [
      "its account's token",
      (pod) => Object.assign(pod, { automountServiceAccountToken: true }),
      "service account",
    ],
    [
      "a folder of the node",
      ({ volumes }) => volumes!.push({ name: "node", hostPath: { path: "/" } }),
      "volumes of their own",
    ],
    [
      "a Secret as files",
      ({ volumes }) => volumes!.push({ name: "secret", secret: { secretName: "registry" } }),
      "volumes of their own",
    ],
    [
      "a second container",
      ({ containers }, container) => containers.push({ ...container, name: "second" }),
      "one container",
    ],
    [
      "another program",
      (_, container) => Object.assign(container, { command: ["sh"] }),
      "the builder's program",
    ],
    [
      "something to run besides",
      (_, container) => Object.assign(container, { lifecycle: { postStart: { exec: { command: ["sh"] } } } }),
      "the builder's program",
    ],
    [
      "another image",
      (_, container) => Object.assign(container, { image: "docker.io/a:1" }),
      "Builds run an image of",
    ],
    [
      "a variable that changes the program",
      ({ containers }) => containers[0]!.env!.push({ name: "NODE_OPTIONS", value: "--import=data:," }),
      "its own request",
    ],
    [
      "another Secret's content",
      (_, { env }) => Object.assign(env![0]!.valueFrom!.secretKeyRef!, { key: ".dockerconfigjson" }),
      "its own request",
    ],
    [
      "all rights on the node",
      (_, { securityContext }) => Object.assign(securityContext!, { privileged: true }),
      "security context",
    ],
    [
      "another capability",
      (_, { securityContext }) => securityContext!.capabilities!.add!.push("SYS_ADMIN"),
      "security context",
    ],
    [
      "another AppArmor profile",
      (_, { securityContext }) =>
        Object.assign(securityContext!, { appArmorProfile: { type: "Unconfined" } }),
      "security context",
    ],
    [
      "no seccomp profile",
      (_, { securityContext }) => Object.assign(securityContext!, { seccompProfile: { type: "Unconfined" } }),
      "security context",
    ],
    [
      "another type of SELinux",
      (pod) => Object.assign(pod.securityContext!, { seLinuxOptions: { type: "spc_t" } }),
      "security context",
    ],
    ["the rights of root", (pod) => Object.assign(pod.securityContext!, { fsGroup: 0 }), "security context"],
  ])("refuses a pod with %s, whoever asks", async (_what, change, sentence) => {
    const [job, pod] = await refusals(jobWith(change));
    expect(job).toContain(sentence);
    // Of some pods the cluster's own rules say it first.
    expect(pod).toMatch(new RegExp(`${sentence}|violates PodSecurity|error looking up service account`));
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
