import { newEnvironment, startPlatform } from "../bench/platform.ts";
import { BUDGET, measureWorst, worstRequests } from "../support/worst-bodies.ts";

/** Sends every worst request of every route to a platform of its own. Returns how many cost more than they may. */
export async function sendWorstBodies(say: (text: string) => void): Promise<number> {
  const platform = await startPlatform();
  try {
    const { P, E } = await newEnvironment(platform, "worst");
    await platform.call("POST", `${E}/services`, { name: "web", type: "web" });
    const [projectId, environmentId] = [P, E].map((path) => path.split("/").at(-1)!) as [string, string];
    const { accountId } = platform;
    const requests = worstRequests(platform, { accountId, projectId, environmentId, service: "web" });
    say(`${requests.length} requests, each of at most ${BUDGET.cpuMs} ms of CPU and ${BUDGET.mib} MiB`);
    const expensive = await measureWorst(platform, requests, say);
    for (const { status, request, where } of expensive) say(`TOO MUCH: ${status} ${request}: ${where}`);
    say(`${expensive.length} cost too much`);
    return expensive.length;
  } finally {
    await platform.stop();
  }
}
