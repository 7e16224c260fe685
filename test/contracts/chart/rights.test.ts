import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { KubernetesObject, V1Role } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import type { Kind } from "../../../services/deployer/kube/client.ts";
import * as kinds from "../../../services/deployer/kube/kinds.ts";
import { chartFolder, helmProgram, ofKind, render } from "./render.ts";

const folder = join(chartFolder, "../../services/deployer");
const kindNamed = kinds as Record<string, Kind<KubernetesObject>>;

/** What each call of the client needs the right to do. */
const VERBS: Record<string, string[]> = {
  get: ["get"],
  list: ["list"],
  listMetadata: ["list"],
  create: ["create"],
  apply: ["create", "patch"],
  merge: ["patch"],
  remove: ["delete"],
  // Which kinds there are, everybody may ask.
  serves: [],
  startInformer: ["list", "watch"],
  startWatches: ["list", "watch"],
};

/** A file that calls with a variable means all kinds that it imports, or that this other file imports. */
const KINDS_FROM: Record<string, string> = {
  "runtime/kubernetes/namespace/apply-namespace.ts": "runtime/kubernetes/namespace/namespace-manifests.ts",
};

/** Files whose watches are lists where there are only rights in environments. */
const ONLY_WATCHED_IN_CLUSTER = ["runtime/kubernetes/observe/drift/companions.ts"];

type Call = { file: string; call: string; kind: string };

/** Returns every call of the Kubernetes API in the deployer's code. */
async function findCalls(): Promise<Call[]> {
  const calls: Call[] = [];
  const generic = ["kube/client.ts", "kube/watch/informer.ts", "kube/watch/watches.ts"];
  for await (const file of glob("**/*.ts", { cwd: folder })) {
    if (/test\.ts$|testing/.test(file) || generic.includes(file)) continue;
    const text = await readFile(join(folder, file), "utf8");
    const direct = text.matchAll(/\bkube\s*\.\s*(\w+)(?:<\w+>)?\(\s*([\w.]+)/g);
    const informers = text.matchAll(/\b(startInformer|startWatches)(?:<\w+>)?\(\s*kube,\s*([\w.]+)/g);
    for (const [, call = "", argument = ""] of [...direct, ...informers])
      for (const kind of await kindsOf(file, argument.replace("kinds.", "")))
        calls.push({ file, call, kind });
    if (/\breadPodLog\(kube/.test(text)) calls.push({ file, call: "readPodLog", kind: "Pod" });
  }
  return calls;
}

async function kindsOf(file: string, argument: string): Promise<string[]> {
  if (argument in kindNamed) return [argument];
  const text = await readFile(join(folder, KINDS_FROM[file] ?? file), "utf8");
  const imported = /import \{([^}]*)\} from "[^"]*\/kinds\.ts"/.exec(text)?.[1];
  return (imported ?? argument).split(",").map((name) => name.trim());
}

/** Returns which of the chart's roles give the right to a call, where the deployer watches the cluster or not. */
function rolesOf(call: Call, watch: string): string[] {
  // Listed at once for all environments where it may be.
  if (call.kind === "PodMetrics" && watch === "cluster") return ["platform-berth-deployer", roleOf(call)];
  if (call.call !== "startWatches") return [roleOf(call)];
  // The role of environments is the same for both, so that a deployer works on beside one that watches otherwise.
  const inEnvironments = ONLY_WATCHED_IN_CLUSTER.includes(call.file) ? [] : ["berth-environment"];
  return watch === "cluster" ? ["platform-berth-deployer", ...inEnvironments] : inEnvironments;
}

function roleOf({ file, kind }: Call): string {
  if (file === "kube/remove-environments.ts") return "platform-berth-remove-apps";
  if (file === "builder/job/node-check/pull-trial.ts") return "berth-test-pulls";
  if (kind === "Namespace" || kind === "RoleBinding") return "platform-berth-deployer";
  const inBuilds = file.startsWith("builder/job/") || file.endsWith("/host-claims.ts");
  return inBuilds ? "berth-deployer" : "berth-environment";
}

function rightsOf({ call, kind }: Call): string[] {
  if (call === "readPodLog") return ["/pods/log get"];
  const { apiVersion, plural } = kindNamed[kind]!;
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  return VERBS[call]!.map((verb) => `${group}/${plural} ${verb}`);
}

const HTTP_ROUTES = {
  "apps.httpRoute.enabled": "true",
  "apps.httpRoute.parentRefs": '[{"name":"berth","namespace":"gateways"}]',
};

const CNPG = { "apps.addons.postgresEngine": '"cnpg"' };
const ARCHIVE = {
  "apps.addons.archive.endpoint": '"https://s3.example.com"',
  "apps.addons.archive.bucket": '"archives"',
  "apps.addons.archive.existingSecret": '"archive-login"',
};

/** Returns the rights that the chart's roles give, by the name of the role. */
async function rightsGiven(set: Record<string, string>): Promise<Record<string, string[]>> {
  const manifests = await render("bundled", set);
  const roles = [...ofKind<V1Role>(manifests, "ClusterRole"), ...ofKind<V1Role>(manifests, "Role")];
  const given = roles.map(({ metadata, rules }) => {
    const rights = rules!.flatMap(({ apiGroups, resources, verbs }) =>
      apiGroups!.flatMap((group) =>
        resources!.flatMap((resource) => verbs.map((verb) => `${group}/${resource} ${verb}`)),
      ),
    );
    return [metadata!.name!, rights.sort()];
  });
  return Object.fromEntries(given);
}

describe.skipIf(!helmProgram)("the deployer's rights", () => {
  test.each(["cluster", "namespaces"])(
    "are those that its code uses, no less and no more, with watches of the %s",
    async (watch) => {
      const used = new Map<string, Set<string>>();
      for (const call of await findCalls()) {
        expect([call, call.call in VERBS || call.call === "readPodLog", call.kind in kindNamed]).toEqual([
          call,
          true,
          true,
        ]);
        for (const role of rolesOf(call, watch))
          used.set(role, new Set([...(used.get(role) ?? []), ...rightsOf(call)]));
      }
      // Whoever binds a role must hold it, or be allowed to bind it.
      used.get("platform-berth-deployer")!.add("rbac.authorization.k8s.io/clusterroles bind");
      const given = await rightsGiven({
        ...HTTP_ROUTES,
        ...{ ...CNPG, ...ARCHIVE },
        "uninstall.removeApps": "true",
        "apps.watch": `"${watch}"`,
      });
      const wanted = [...used].map(([role, rights]) => [role, [...rights].sort()]);
      expect(given).toEqual(Object.fromEntries(wanted));
    },
  );

  test("reach HTTPRoutes only once these are chosen, and then to remove what is left of them", async () => {
    const ofRoutes = async (set: Record<string, string>) =>
      (await rightsGiven(set))["berth-environment"]!.filter((right) => right.includes("httproutes"));
    const verbs = (...all: string[]) => all.map((verb) => `gateway.networking.k8s.io/httproutes ${verb}`);
    expect(await ofRoutes({})).toEqual([]);
    expect(await ofRoutes(HTTP_ROUTES)).toEqual(verbs("create", "delete", "list", "patch"));
    const left = { ...HTTP_ROUTES, "apps.httpRoute.enabled": "false" };
    expect(await ofRoutes(left)).toEqual(verbs("delete", "list"));
  });

  test("reach servers of CloudNativePG only once addons may run on it", async () => {
    const ofServers = async (set: Record<string, string>) =>
      Object.values(await rightsGiven(set))
        .flat()
        .filter((right) => right.includes("cnpg"));
    expect(await ofServers({})).toEqual([]);
    expect(await ofServers({ "apps.addons.postgresEngine": '"auto"' })).toEqual(await ofServers(CNPG));
    const withArchives = await ofServers({ ...CNPG, ...ARCHIVE });
    expect(withArchives.filter((right) => /objectstores|scheduledbackups/.test(right))).toHaveLength(6);
    expect(await ofServers(CNPG)).toEqual(withArchives.filter((right) => right.includes("/clusters")));
  });

  test("let it read what is in a Secret where it masks an app's output or asks a standby, and nowhere else does it ask", async () => {
    const reading = (await findCalls()).filter(
      ({ call, kind }) =>
        kind === "Secret" && ["get", "list", "startInformer", "startWatches"].includes(call),
    );
    expect(reading.map(({ file, call }) => `${file} ${call}`)).toEqual([
      "runtime/kubernetes/observe/status/crash-output.ts get",
      "addons/kubernetes/standby/secret.ts get",
    ]);
  });
});
