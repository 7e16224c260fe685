import { createHmac } from "node:crypto";
import type {
  KubernetesObject,
  V1LabelSelector,
  V1LimitRange,
  V1Namespace,
  V1NetworkPolicy,
  V1NetworkPolicyPeer,
  V1NetworkPolicyPort,
  V1ObjectMeta,
  V1ResourceQuota,
  V1RoleBinding,
  V1Secret,
} from "@kubernetes/client-node";
import { addLogins } from "../../../images/registries/logins.ts";
import type { Kind, Sent } from "../../../kube/client.ts";
import { LimitRange, NetworkPolicy, ResourceQuota, Secret } from "../../../kube/kinds.ts";
import { annotation, INSTALLATION, label, labelsOf, namespaceOf } from "../../../kube/names.ts";
import { bytesOf } from "../../../kube/pods/resources.ts";
import { DEFAULT_STORAGE, type EnvironmentPlan } from "../../../terms/environment-plan.ts";
import { ADDON_PORTS } from "../../../terms/services.ts";
import { PRIVATE, SCRAPED } from "../app-pods.ts";
import type { AppOptions, KubernetesRuntimeOptions } from "../options.ts";
import { PULL_SECRET } from "../release/manifests.ts";

const STORAGE = "limits.ephemeral-storage";

export type Environment = { accountId: string; projectId: string; environmentId: string };

/** An object and its kind, to be applied. */
export type Manifest = { kind: Kind<KubernetesObject>; object: Sent<KubernetesObject> };

type Options = Pick<
  KubernetesRuntimeOptions,
  | "namespacePrefix"
  | "claimsNamespace"
  | "environmentRole"
  | "serviceAccount"
  | "network"
  | "hosts"
  | "registryAuth"
  | "quota"
>;

/** The annotation of a namespace that says which state was applied to it and to what it holds. */
const MARK = annotation("applied");

const NAME = "berth";
/** The pods of this process, as the chart labels them. */
const DEPLOYERS = { "app.kubernetes.io/component": "deployer" };
const TUNNEL_PORTS = Object.values(ADDON_PORTS).map((port) => ({ port, protocol: "TCP" }));
const APPS = { [label("kind")]: "app" };
/** Pods that copy the data of addons. */
const COPIES = { [label("kind")]: "copy" };
/** Pods of cert-manager, which answer a certificate authority for a moment, at a domain's host (HTTP-01). */
const SOLVERS = { "acme.cert-manager.io/http01-solver": "true" };

/** How long a roll-out takes at least, unless its user wants it shorter: how many others a grace period spans. */
const ROLLOUT_SECONDS = 10;

/**
 * Returns the options with the limits of a plan; pure. They catch what escapes Berth's own quotas, so they leave room for
 * pods of other versions, which start or end beside those that serve. A limit that the installation names itself holds
 * instead, and for pods and local disk the smaller one.
 */
export function withPlan<
  T extends Pick<KubernetesRuntimeOptions, "quota" | "network" | "apps" | "registryAuth">,
>(options: T, plan: EnvironmentPlan | undefined): T {
  const { most, volumes, openPorts = [], logins = [] } = plan ?? {};
  const room = roomFor(options.apps);
  const { pods = Infinity, [STORAGE]: storage } = options.quota;
  const network = {
    ...options.network,
    closedPorts: options.network.closedPorts.filter((port) => !openPorts.includes(port)),
  };
  const quota = {
    ...(most && {
      "limits.cpu": `${most.cpu * room}m`,
      "limits.memory": `${most.memory * room}Mi`,
    }),
    ...(volumes !== undefined && { persistentvolumeclaims: String(volumes * room) }),
    ...options.quota,
    ...(most && {
      pods: String(Math.min(Number(pods), most.pods * room)),
      [STORAGE]: smaller(storage, `${most.storage * room}Mi`),
    }),
  };
  const { registryAuth } = options;
  const pulls = registryAuth && ((accountId: string) => addLogins(registryAuth(accountId), logins));
  return { ...options, network, quota, ...(pulls && { registryAuth: pulls }) };
}

function smaller(one: string | undefined, other: string): string {
  return one !== undefined && bytesOf(one) < bytesOf(other) ? one : other;
}

/** Returns how many pods there may be at once for each that serves: it, one more that starts, and those that end. */
const roomFor = ({ drainSeconds, graceSeconds }: AppOptions) =>
  3 + Math.ceil((drainSeconds + graceSeconds) / ROLLOUT_SECONDS);

/** Returns the namespace of an environment; nothing in it may run with more rights than `restricted` allows. */
export function namespaceFor(
  environment: Environment,
  { namespacePrefix, claimsNamespace }: Options,
): Sent<V1Namespace> {
  const { accountId, projectId, environmentId } = environment;
  return {
    metadata: {
      name: namespaceOf(namespacePrefix, environmentId),
      labels: {
        ...labelsOf({ accountId, projectId, environmentId }),
        [INSTALLATION]: claimsNamespace,
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
      },
    },
  };
}

/** Returns the RoleBinding that lets this process, and no other, work in the namespace; undefined where it needs none. */
export function bindingFor(environment: Environment, options: Options): Sent<V1RoleBinding> | undefined {
  const { environmentRole, serviceAccount } = options;
  if (!environmentRole || !serviceAccount) return undefined;
  return {
    metadata: metadataFor("berth-deployer", environment, options),
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: environmentRole },
    subjects: [{ kind: "ServiceAccount", ...serviceAccount }],
  };
}

/** Returns what an environment's namespace holds besides its services; pure. */
export function environmentManifests(environment: Environment, options: Options): Manifest[] {
  const metadata = (name: string) => metadataFor(name, environment, options);
  const quota: Sent<V1ResourceQuota> = { metadata: metadata(NAME), spec: { hard: options.quota } };
  const limits: Sent<V1LimitRange> = {
    metadata: metadata(NAME),
    spec: {
      limits: [
        {
          type: "Container",
          // A quota admits only pods that say how much disk they may use.
          _default: { cpu: "250m", memory: "256Mi", "ephemeral-storage": `${DEFAULT_STORAGE / 1024}Gi` },
          defaultRequest: { cpu: "25m", memory: "128Mi", "ephemeral-storage": "100Mi" },
        },
      ],
    },
  };
  const policies = policiesOf(options).map(({ name, spec }) => ({
    kind: NetworkPolicy,
    object: { metadata: metadata(name), spec },
  }));
  const pull: Sent<V1Secret> | undefined = options.registryAuth
    ? {
        metadata: metadata(PULL_SECRET),
        type: "kubernetes.io/dockerconfigjson",
        data: {
          ".dockerconfigjson": Buffer.from(options.registryAuth(environment.accountId)).toString("base64"),
        },
      }
    : undefined;
  return [
    // First: nothing may run before its network is restricted.
    ...policies,
    { kind: ResourceQuota, object: quota },
    { kind: LimitRange, object: limits },
    ...(pull ? [{ kind: Secret, object: pull }] : []),
  ];
}

/** Returns the namespace with the mark of its desired state, which does not reveal the registry's password; pure. */
export function withMark(environment: Environment, options: Options): Sent<V1Namespace> {
  const namespace = namespaceFor(environment, options);
  const { registryAuth, ...rest } = options;
  const objects = [
    namespace,
    bindingFor(environment, options),
    ...environmentManifests(environment, { ...rest, registryAuth: undefined }),
  ];
  const mark = createHmac("sha256", registryAuth?.(environment.accountId) ?? "")
    .update(JSON.stringify(objects))
    .digest("hex")
    .slice(0, 32);
  return { ...namespace, metadata: { ...namespace.metadata, annotations: { [MARK]: mark } } };
}

/** Returns whether two namespaces have the same mark. */
export function isSameMark(one: { metadata?: V1ObjectMeta }, other: { metadata?: V1ObjectMeta }): boolean {
  const mark = one.metadata?.annotations?.[MARK];
  return mark !== undefined && mark === other.metadata?.annotations?.[MARK];
}

function metadataFor(name: string, environment: Environment, { namespacePrefix }: Options) {
  const { accountId, projectId, environmentId } = environment;
  const namespace = namespaceOf(namespacePrefix, environmentId);
  return { name, namespace, labels: labelsOf({ accountId, projectId, environmentId }) };
}

type Policy = { name: string; spec: NonNullable<V1NetworkPolicy["spec"]> };

/**
 * Returns policies that admit only these: the environment itself, DNS, the internet, the ingress controller, and this process
 * to the servers of addons, for tunnels and for standbys that take over.
 */
function policiesOf({ network, hosts, serviceAccount }: Options): Policy[] {
  const neighbours: V1NetworkPolicyPeer[] = [{ podSelector: {} }];
  const tunnels: V1NetworkPolicyPeer[] = serviceAccount
    ? [
        {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": serviceAccount.namespace } },
          podSelector: { matchLabels: DEPLOYERS },
        },
      ]
    : [];
  const { ingressNamespaceLabels, ingressFromCidrs } = network;
  const controllers: V1NetworkPolicyPeer[] = ingressFromCidrs.map((cidr) => ({ ipBlock: { cidr } }));
  for (const matchLabels of ingressNamespaceLabels) controllers.push({ namespaceSelector: { matchLabels } });
  const policies: Policy[] = [
    { name: "deny", spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] } },
    {
      name: "within",
      spec: {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        // Here and not in a policy of its own: it counts for each of ten thousand environments.
        ingress: [
          { _from: neighbours },
          ...(tunnels.length > 0 ? [{ _from: tunnels, ports: TUNNEL_PORTS }] : []),
        ],
        egress: [{ to: neighbours }],
      },
    },
    {
      name: "out",
      spec: {
        podSelector: { matchLabels: APPS },
        policyTypes: ["Egress"],
        egress: [
          { ports: dnsPorts(network.dnsPorts), to: network.dnsPeers },
          {
            ...(network.portRanges && { ports: portsExcept(network.closedPorts) }),
            to: internet(network.egressExceptCidrs),
          },
        ],
      },
    },
  ];
  if (network.copiesTo?.length)
    policies.push({
      name: "copies",
      spec: {
        podSelector: { matchLabels: COPIES },
        policyTypes: ["Egress"],
        egress: [{ ports: dnsPorts(network.dnsPorts), to: network.dnsPeers }, ...network.copiesTo],
      },
    });
  if (network.metricsPeers.length > 0)
    policies.push({
      name: "metrics",
      spec: {
        podSelector: { matchLabels: { ...APPS, ...SCRAPED } },
        policyTypes: ["Ingress"],
        ingress: [{ _from: network.metricsPeers }],
      },
    });
  const reached: Record<string, V1LabelSelector> = {
    in: {
      matchLabels: APPS,
      matchExpressions: [{ key: PRIVATE.key, operator: "NotIn", values: [PRIVATE.value] }],
    },
    ...(hosts?.issuer && { solvers: { matchLabels: SOLVERS } }),
  };
  for (const [name, podSelector] of Object.entries(controllers.length > 0 ? reached : {}))
    policies.push({
      name,
      spec: {
        podSelector,
        policyTypes: ["Ingress"],
        ingress: [{ _from: controllers }],
      },
    });
  return policies;
}

/** Returns these ports as a rule for DNS names them. */
export const dnsPorts = (ports: number[]) =>
  ports.flatMap((port) => ["UDP", "TCP"].map((protocol) => ({ port, protocol })));

/** Only the cluster's DNS is asked: any other would be a way out that nobody sees, and open to attacks on others. */
const DNS_PORT = 53;

/** Returns all ports but these of TCP, and DNS, as a rule names them: a policy can only admit. */
function portsExcept(closed: number[]): V1NetworkPolicyPort[] {
  const rangesOf = (protocol: string, shut: number[]) => {
    const borders = [0, ...shut.toSorted((one, other) => one - other), 65_536];
    const between = borders.slice(1).map((next, at) => ({ port: borders[at]! + 1, endPort: next - 1 }));
    return between.filter(({ port, endPort }) => port <= endPort).map((range) => ({ protocol, ...range }));
  };
  return [...rangesOf("TCP", [...closed, DNS_PORT]), ...rangesOf("UDP", [DNS_PORT])];
}

function internet(except: string[]): V1NetworkPolicyPeer[] {
  const [four, six] = [except.filter((one) => !one.includes(":")), except.filter((one) => one.includes(":"))];
  return [
    { ipBlock: { cidr: "0.0.0.0/0", ...(four.length > 0 && { except: four }) } },
    { ipBlock: { cidr: "::/0", ...(six.length > 0 && { except: six }) } },
  ];
}
