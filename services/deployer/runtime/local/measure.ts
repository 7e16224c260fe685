import { measureSessions, type SessionUse } from "../../shared/process-tree.ts";
import type { Counter, Measurable, Measurement } from "../../terms/measurement.ts";
import type { Router } from "./routing/router.ts";
import type { Service } from "./service/service-runner.ts";

const NO_NETWORK = "The network traffic of one service cannot be measured on one machine.";
export const NO_PROC = "Only on Linux can the CPU, memory and connections of processes be measured.";

/** Why something is not measured on this machine. */
export function unmeasuredHere(): Partial<Record<Measurable, string>> {
  return {
    network: NO_NETWORK,
    ...(process.platform !== "linux" && { cpu: NO_PROC, memory: NO_PROC }),
  };
}

/** Returns what services use and which requests they answered: CPU and memory of all in one scan of the processes. */
export function measureServices(services: Service[], router: Router): Measurement[] {
  const measurable = services.map((service) => service.measurable());
  const used = measureSessions(measurable.flatMap(({ instances }) => instances));
  return measurable.map(({ serviceId, label, instances, replicas, restarts }) => {
    const running = instances.flatMap(({ name, pid }) => {
      const use = used.get(pid);
      return use ? [{ name, use }] : [];
    });
    const traffic = label === "" ? undefined : router.traffic(label);
    return {
      ...{ serviceId, replicas },
      ...(process.platform === "linux" && {
        memory: running.reduce((sum, { use }) => sum + use.memory, 0),
      }),
      counters: [restarts, ...running.map(toCounter), ...(traffic ? [traffic] : [])],
    };
  });
}

function toCounter({ name, use: { startedAt, cpuMs } }: { name: string; use: SessionUse }): Counter {
  return { source: name, since: startedAt, cpuMs };
}
