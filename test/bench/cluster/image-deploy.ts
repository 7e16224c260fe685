import { setTimeout as delay } from "node:timers/promises";
import { median } from "../row.ts";
import { type ClusterBench, type Stage, timesOf, took } from "./stage.ts";

const ROUNDS = 5;

export const serve = `node -e 'require("node:http").createServer((_, r) => r.end("hello")).listen(process.env.PORT)'`;

/** An image, from POST deploy to `healthyAt`, over `kubectl apply` of the same Deployment until it is rolled out. */
export const imageDeploy: ClusterBench = {
  name: "image-deploy",
  run: async (stage) => {
    const { door, run } = stage;
    const { S, environmentId } = await door.environment();
    const [service, image] = [S("web"), `${run.registry.pull}/${run.images.node}`];
    await door.must("POST", service.replace(/\/web$/, ""), {
      name: "web",
      type: "web",
      config: { command: serve },
    });
    const deploy = async (version: number) => {
      const posted = Date.now();
      await door.must("POST", `${service}/deploy`, { image });
      const { healthyAt } = await timesOf(door, `${service}/deployments/${version}`, "healthyAt");
      return Date.parse(healthyAt!) - posted;
    };
    await deploy(1); // Both begin with a release that is there, and the image on the node.
    const byHand = await copyOfRelease(stage, environmentId);
    await byHand(0);
    const ratios: number[] = [];
    for (let round = 1; round <= ROUNDS; round++) {
      const hand = await took(() => byHand(round));
      await delay(2_000); // The one before ends meanwhile, its drain included.
      ratios.push((await deploy(round + 1)) / hand);
      await delay(2_000);
    }
    return { name: "image-deploy", value: median(ratios), unit: "x kubectl apply", goal: "<= 1.3" };
  },
};

type Manifest = {
  metadata: { namespace: string; name: string; labels?: object; annotations?: object };
  spec: {
    selector: { matchLabels: Record<string, string> };
    template: { metadata: { labels?: object; annotations?: Record<string, string> }; spec: object };
  };
};

/** Rolls a Deployment that is like the release's own, except for its name; each round is a new revision. */
async function copyOfRelease({ kubectl }: Stage, environmentId: string) {
  const label = `berth.dev/environment=${environmentId}`;
  const found = JSON.parse(await kubectl.call("get", "deployments", "-A", "-l", label, "-o", "json"));
  const { metadata, spec } = (found.items as Manifest[])[0]!;
  const { namespace } = metadata;
  const labels = { app: "by-hand" };
  return async (round: number) => {
    const template = { ...spec.template, metadata: { labels, annotations: { round: String(round) } } };
    await kubectl.apply({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "by-hand", namespace },
      spec: { ...spec, selector: { matchLabels: labels }, template },
    });
    await kubectl.call("rollout", "status", "-n", namespace, "deployment/by-hand", "--timeout=120s");
  };
}
