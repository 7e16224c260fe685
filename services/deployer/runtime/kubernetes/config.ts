import type { V1NetworkPolicyEgressRule, V1NetworkPolicyPeer } from "@kubernetes/client-node";
import {
  choice,
  type Field,
  integer,
  isObject,
  isPorts,
  isTexts,
  json,
  optionalText,
  optionalUrl,
  text,
} from "../../../kit/process/config.ts";
import type { GatewayRef } from "../../kube/kinds.ts";

const TEXTS = "an object of texts";
const PEERS = 'a list of {"podSelector": …, "namespaceSelector": …} or {"ipBlock": …}, not an empty one';
/** What is called so on almost all clusters. */
const CLUSTER_DNS: V1NetworkPolicyPeer[] = [
  {
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
    podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
  },
];
const GATEWAY_REFS = 'a list of {"name": …, "namespace": …}';

/** The environment variables that say how releases run on a cluster. */
export const kubernetesRuntimeFields = {
  namespacePrefix: text("KUBE_NAMESPACE_PREFIX", "berth"),
  /** Whether the deployer may watch the whole cluster. */
  watch: choice("KUBE_WATCH", ["cluster", "namespaces"] as const, "namespaces"),
  /** The ClusterRole that the deployer binds to itself in each environment's namespace. */
  environmentRole: optionalText("KUBE_ENVIRONMENT_ROLE"),
  serviceAccount: serviceAccount("KUBE_SERVICE_ACCOUNT"),
  appsDomain: text("APPS_DOMAIN"),
  appsScheme: choice("APPS_SCHEME", ["http", "https"] as const, "https"),
  appsPort: optionalPort("APPS_PORT"),
  /** Longer than ingress controllers take to notice that a replica terminates. */
  appsDrainSeconds: integer("APPS_DRAIN_SECONDS", { min: 1, max: 300, fallback: 5 }),
  appsGraceSeconds: integer("APPS_GRACE_SECONDS", { min: 1, max: 600, fallback: 30 }),
  /** The share of its size that a replica reserves on a node. */
  appsReserved: json(
    "APPS_RESERVED",
    { cpu: 0.1, memory: 0.5 } as { cpu: number; memory: number; storage?: number },
    isShares,
    '{"cpu": 0–1, "memory": 0–1, "storage": 0–1}',
  ),
  ingress: choice("INGRESS", ["on", "off"] as const, "on"),
  ingressClass: optionalText("INGRESS_CLASS"),
  ingressAnnotations: json("INGRESS_ANNOTATIONS", {} as Record<string, string>, isTexts, TEXTS),
  ingressTlsSecret: optionalText("INGRESS_TLS_SECRET"),
  ingressNamespaceLabels: json(
    "INGRESS_NAMESPACE_LABELS",
    undefined as Record<string, string> | undefined,
    isTexts,
    TEXTS,
  ),
  httpRoutes: choice("HTTP_ROUTES", ["on", "off"] as const, "off"),
  /** The Gateways of HTTPRoutes; without any, the cluster need not know the Gateway API. */
  httpRouteParents: json("HTTP_ROUTE_PARENTS", [] as GatewayRef[], isGatewayRefs, GATEWAY_REFS),
  httpRouteAnnotations: json("HTTP_ROUTE_ANNOTATIONS", {} as Record<string, string>, isTexts, TEXTS),
  httpRouteTimeouts: json("HTTP_ROUTE_TIMEOUTS", {} as Record<string, string>, isTexts, TEXTS),
  gatewayNamespaceLabels: json(
    "GATEWAY_NAMESPACE_LABELS",
    undefined as Record<string, string> | undefined,
    isTexts,
    TEXTS,
  ),
  ingressFromCidrs: json("INGRESS_FROM_CIDRS", [] as string[], isCidrs, "a list of CIDRs"),
  /** Networks that are not the internet; those of the cluster must be among them. */
  appsEgressExcept: json(
    "APPS_EGRESS_EXCEPT",
    [
      ...[
        "10.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.168.0.0/16",
      ],
      ...["fc00::/7", "fe80::/10"],
    ],
    isCidrs,
    "a list of CIDRs",
  ),
  /** TCP ports outside their environment that apps may not reach: those of mail. [] also opens port 53. */
  appsClosedPorts: json("APPS_CLOSED_PORTS", [25, 465, 587], isPorts, "a list of ports"),
  dnsPorts: json("DNS_PORTS", [53], isPorts, "a list of ports"),
  /** Where the cluster's DNS is, as NetworkPolicies name it. */
  dnsPeers: json("DNS_PEERS", CLUSTER_DNS, isPeers, PEERS),
  /** What the pods that copy the data of addons reach: the object store, as NetworkPolicies name it. */
  addonCopiesTo: json(
    "ADDON_COPIES_TO",
    [] as V1NetworkPolicyEgressRule[],
    isRules,
    "a list of egress rules",
  ),
  /** Who may scrape apps that say where their metrics are, as NetworkPolicies name it. */
  metricsPeers: json("METRICS_PEERS", [] as V1NetworkPolicyPeer[], isPeersOrNone, PEERS),
  /** Of a Prometheus that scrapes the ingress controller and the kubelets (docs/metrics.md#prometheus). */
  prometheusUrl: optionalUrl("PROMETHEUS_URL", ["http", "https"]),
  environmentQuota: json(
    "ENVIRONMENT_QUOTA",
    {
      pods: "100",
      "limits.ephemeral-storage": "400Gi",
      "services.loadbalancers": "0",
      "services.nodeports": "0",
    } as Record<string, string>,
    isTexts,
    TEXTS,
  ),
};

function isShares(value: unknown): boolean {
  const share = (one: unknown) => typeof one === "number" && one > 0 && one <= 1;
  return isObject(value) && share(value.cpu) && share(value.memory) && share(value.storage ?? 1);
}

/** An empty peer, or none at all, would be every address. */
function isPeers(value: unknown): boolean {
  const members = ["podSelector", "namespaceSelector", "ipBlock"];
  const isPeer = (one: unknown) =>
    isObject(one) && Object.keys(one).length > 0 && Object.keys(one).every((name) => members.includes(name));
  return Array.isArray(value) && value.length > 0 && value.every(isPeer);
}

function isRules(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => isObject(one) && Object.keys(one).length > 0);
}

function isPeersOrNone(value: unknown): boolean {
  return isPeers(value) || (Array.isArray(value) && value.length === 0);
}

function isGatewayRefs(value: unknown): boolean {
  const isRef = (one: unknown) =>
    isObject(one) && typeof one.name === "string" && typeof one.namespace === "string";
  return Array.isArray(value) && value.every(isRef);
}

function isCidrs(value: unknown): boolean {
  const cidr = /^[0-9a-fA-F.:]+\/\d{1,3}$/;
  return Array.isArray(value) && value.every((one) => typeof one === "string" && cidr.test(one));
}

function serviceAccount(name: string): Field<{ namespace: string; name: string } | undefined> {
  return {
    name,
    parse(given) {
      if (given === undefined) return undefined;
      const [namespace, account, ...more] = given.split("/");
      if (!namespace || !account || more.length > 0) throw new Error("must be <namespace>/<name>");
      return { namespace, name: account };
    },
  };
}

function optionalPort(name: string): Field<number | undefined> {
  const port = integer(name, { min: 1, max: 65_535 });
  return { name, parse: (given) => (given === undefined ? undefined : port.parse(given)) };
}
