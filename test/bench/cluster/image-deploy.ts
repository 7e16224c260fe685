import { Deployment, Ingress, Secret, Service } from "../../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../../services/deployer/kube/names.ts";
import { median } from "../row.ts";
import { type ClusterBench, imageService, isHealthy, timeUntil } from "./cluster.ts";

const ROUNDS = 5;

/** POST of an image until it is healthy, compared with `kubectl apply` of the same objects until they are available. */
export const imageDeploy: ClusterBench = {
  names: ["image-deploy"],
  run: async ({ door, kube, settings, call }) => {
    const image = `${settings.registry.pull}/${settings.images.node}`;
    const { E, environmentId } = await door.environment();
    const hand = "bench-by-hand";
    const ratios: number[] = [];
    try {
      for (let round = 0; round <= ROUNDS; round++) {
        const S = await imageService(door, E);
        const { id } = await door.must<{ id: string }>("GET", S);
        const posted = performance.now();
        await door.must("POST", `${S}/deploy`, { image });
        await timeUntil(() => isHealthy(door, S, 1));
        const ours = performance.now() - posted;
        const labels = selector({ [label("environment")]: environmentId, [label("service")]: id });
        const made = [
          ...(await kube.list(Secret, { labels })).items.map((one) => bare(Secret, one)),
          ...(await kube.list(Deployment, { labels })).items.map((one) => bare(Deployment, one)),
          ...(await kube.list(Service, { labels })).items.map((one) => bare(Service, one)),
          ...(await kube.list(Ingress, { labels })).items.map((one) => bare(Ingress, one)),
        ];
        await door.call("DELETE", S, { confirmImpact: true });
        await timeUntil(async () => (await door.call("GET", S)).status === 404);
        const list = JSON.stringify({ apiVersion: "v1", kind: "List", items: made });
        await call(["create", "namespace", hand]);
        const begun = performance.now();
        await call(["apply", "-n", hand, "-f", "-"], list);
        await call([
          "wait",
          "-n",
          hand,
          "--for=condition=Available",
          "deployment",
          "--all",
          "--timeout=120s",
        ]);
        const theirs = performance.now() - begun;
        await call(["delete", "namespace", hand, "--wait=true"]);
        if (round > 0) ratios.push(ours / theirs); // the first also makes the environment's namespace
      }
    } finally {
      await call(["delete", "namespace", hand, "--ignore-not-found", "--wait=false"]);
    }
    return [{ name: "image-deploy", value: median(ratios), unit: "x kubectl apply", goal: "<= 1.3" }];
  },
};

type Made = { metadata?: { name?: string; labels?: object; annotations?: object } };

/** Returns an object as written by hand: without its namespace and what the cluster added. */
function bare(kind: { apiVersion: string; kind: string }, made: Made): object {
  const { name, labels, annotations } = made.metadata ?? {};
  const { apiVersion, kind: kindName } = kind;
  const copy = structuredClone(made) as Record<string, unknown> & { spec?: Record<string, unknown> };
  delete copy.status;
  for (const given of ["clusterIP", "clusterIPs"]) delete copy.spec?.[given];
  return { ...copy, apiVersion, kind: kindName, metadata: { name, labels, annotations } };
}
