import { Pod } from "../../../services/deployer/kube/kinds.ts";
import { label, selector } from "../../../services/deployer/kube/names.ts";
import type { Figure } from "../row.ts";
import { type ClusterBench, isHealthy, timeUntil } from "./cluster.ts";

type Type = "redis" | "postgres";
type Addon = { id: string; status: string; capabilities: { maxReplicas: number } };

/** Labels of an addon's pods, and JavaScript of what an app asks at `url`, and whether what it hears is the answer. */
const ADDONS = {
  redis: {
    pods: label("serviceId"),
    question: `"AUTH " + url.password + "\\r\\nSET written now\\r\\n"`,
    isAnswered: "/OK[^]*OK/.test(heard)",
  },
  // The first message of a connection, with its length and the version; the server asks for the password.
  postgres: {
    pods: label("service"),
    question: `(() => {
      const names = ["user", url.username, "database", url.pathname.slice(1), "", ""].join("\\0");
      const head = Buffer.alloc(8);
      head.writeInt32BE(names.length + 8);
      head.writeInt32BE(196608, 4);
      return Buffer.concat([head, Buffer.from(names)]);
    })()`,
    isAnswered: "heard[0] === 82",
  },
};

/** Returns a program that asks without end, and prints after how many ms it was answered again if that is more than a second. */
const asking = ({ question, isAnswered }: (typeof ADDONS)[Type]) => `
  const net = require("node:net");
  const url = new URL(process.env.ADDON_URL);
  const ask = () => new Promise((done) => {
    const socket = net.connect(url.port, url.hostname).setTimeout(1000, () => socket.destroy());
    let heard = Buffer.alloc(0);
    socket.on("connect", () => socket.write(${question})).on("error", () => {}).on("close", () => done(false));
    socket.on("data", (part) => {
      heard = Buffer.concat([heard, part]);
      if (${isAnswered}) { done(true); socket.destroy(); }
    });
  });
  (async () => {
    for (let last = 0; ; await new Promise((next) => setTimeout(next, 50))) {
      if (!(await ask())) continue;
      if (last === 0) console.log("begun");
      else if (Date.now() - last > 1000) console.log("paused", Date.now() - last);
      last = Date.now();
    }
  })();`;

/** A program after which a redis server is busy without end. */
const HANG = `
  const url = new URL(process.env.ADDON_URL);
  const socket = require("node:net").connect(url.port, url.hostname);
  socket.write("AUTH " + url.password + "\\r\\nEVAL \\"while true do end\\" 0\\r\\n");
  setTimeout(() => process.exit(), 2000);`;

/** docs/addons.md#standbys */
const PROMISED_S = 60;

/** How long an app gets no answer once a redis primary hangs, or the pod of a PostgreSQL primary is deleted without notice. */
export const failover: ClusterBench = {
  names: ["redis-failover", "postgres-failover"],
  run: async ({ door, kube, settings, call }) => {
    /** Returns the seconds, or nothing where an addon of this type has no standbys. */
    async function pause(type: Type): Promise<number | undefined> {
      const { pods } = ADDONS[type];
      const { E, S } = await door.environment();
      await door.must("POST", `${E}/services`, { name: "addon", type });
      const show = () => door.must<Addon>("GET", S("addon"));
      const isRunning = async () => (await show()).status === "running";
      await timeUntil(isRunning);
      const { id, capabilities } = await show();
      if (capabilities.maxReplicas < 2) return undefined;
      const podsOf = async (labels: Record<string, string>) => {
        const { items } = await kube.list(Pod, { labels: selector(labels) });
        return items.filter(({ status }) =>
          status?.conditions?.some((one) => one.type === "Ready" && one.status === "True"),
        );
      };
      await door.must("PATCH", S("addon"), { config: { replicas: 2 } });
      await timeUntil(async () => (await podsOf({ [pods]: id })).length === 2 && (await isRunning()));

      await door.must("POST", `${E}/variables`, {
        ...{ name: "ADDON_URL", connection: { service: "addon", key: "URL" } },
      });
      const config = { command: `node -e '${asking(ADDONS[type])}'` };
      const app = await door.must<{ id: string }>("POST", `${E}/services`, {
        ...{ name: "app", type: "worker", config },
      });
      const image = `${settings.registry.pull}/${settings.images.node}`;
      await door.must("POST", `${S("app")}/deploy`, { image });
      await timeUntil(() => isHealthy(door, S("app"), 1));
      const [pod] = await podsOf({ [label("service")]: app.id });
      const { name, namespace } = pod!.metadata!;
      const printed = async (pattern: RegExp) =>
        [...(await call(["logs", "-n", namespace!, name!])).matchAll(pattern)].map(([, ms]) => Number(ms));
      await timeUntil(async () => (await printed(/begun/g)).length > 0);
      const before = (await printed(/paused (\d+)/g)).length;

      if (type === "redis") {
        await call(["exec", "-n", namespace!, name!, "--", "node", "-e", HANG]);
      } else {
        const [primary] = await podsOf({ [pods]: id, "cnpg.io/instanceRole": "primary" });
        await kube.remove(Pod, primary!.metadata!.name!, namespace!, { gracePeriodSeconds: 0 });
      }
      await timeUntil(async () => (await printed(/paused (\d+)/g)).length > before);
      const paused = (await printed(/paused (\d+)/g))[before]!;
      for (const service of ["app", "addon"]) await door.must("DELETE", S(service), { confirmImpact: true });
      return paused / 1000;
    }

    const figures: Figure[] = [];
    for (const type of ["redis", "postgres"] as const) {
      const seconds = await pause(type);
      if (seconds === undefined)
        process.stdout.write(`left out: ${type}-failover, because ${type} has no standbys here\n`);
      else
        figures.push({
          name: `${type}-failover`,
          value: seconds / PROMISED_S,
          unit: "x a minute",
          goal: "<= 1.2",
          detail: `no answer for ${seconds.toFixed(1)} s`,
        });
    }
    return figures;
  },
};
