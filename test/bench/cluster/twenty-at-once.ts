import { median } from "../row.ts";
import { serve } from "./image-deploy.ts";
import { type ClusterBench, timesOf } from "./stage.ts";

const MANY = 20;
const ALONE = 3;

/** Twenty services deployed at once until the last is healthy, over one alone. */
export const twentyAtOnce: ClusterBench = {
  name: "twenty-at-once",
  run: async ({ door, run }) => {
    const { S } = await door.environment();
    const image = `${run.registry.pull}/${run.images.node}`;
    const make = async (name: string) => {
      const service = S(name);
      await door.must("POST", service.slice(0, service.lastIndexOf("/")), {
        name,
        type: "web",
        config: { command: serve },
      });
      return service;
    };
    const deployAll = async (services: string[]) => {
      const posted = Date.now();
      const healthy = await Promise.all(
        services.map(async (service) => {
          await door.must("POST", `${service}/deploy`, { image });
          return Date.parse((await timesOf(door, `${service}/deployments/1`, "healthyAt")).healthyAt!);
        }),
      );
      return Math.max(...healthy) - posted;
    };
    const alone: number[] = [];
    for (let n = 0; n < ALONE; n++) alone.push(await deployAll([await make(`alone-${n}`)]));
    const services: string[] = [];
    for (let n = 0; n < MANY; n++) services.push(await make(`many-${n}`));
    const together = await deployAll(services);
    return { name: "twenty-at-once", value: together / median(alone), unit: "x one alone", goal: "<= 8" };
  },
};
