import { median } from "../row.ts";
import { type ClusterBench, imageService, isHealthy, timeUntil } from "./cluster.ts";

const SERVICES = 20;
const ROUNDS = 3;

/** Twenty services deployed at once until the last is healthy, compared with one. */
export const many: ClusterBench = {
  names: ["deploy-20-services"],
  run: async ({ door, settings }) => {
    const image = `${settings.registry.pull}/${settings.images.node}`;
    const { E } = await door.environment();
    const time = async (count: number) => {
      const paths = await Promise.all(Array.from({ length: count }, () => imageService(door, E)));
      const posted = performance.now();
      await Promise.all(paths.map((S) => door.must("POST", `${S}/deploy`, { image })));
      // One after the other: the last one decides, and polling all at once would slow down what is measured.
      for (const S of paths) await timeUntil(() => isHealthy(door, S, 1));
      const taken = performance.now() - posted;
      await Promise.all(paths.map((S) => door.call("DELETE", S, { confirmImpact: true })));
      for (const S of paths) await timeUntil(async () => (await door.call("GET", S)).status === 404);
      return taken;
    };
    await time(1); // makes the environment's namespace
    const ratios: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const one = await time(1);
      ratios.push((await time(SERVICES)) / one);
    }
    return [{ name: "deploy-20-services", value: median(ratios), unit: "x one", goal: "<= 8" }];
  },
};
