import { httpGet } from "../../../deploy/local/processes/http-get.ts";
import { programs } from "../../../deploy/local/programs/programs.ts";
import type { TcpProxy } from "../../../services/kit/testing/proxy.ts";

/** A process that can be killed or stopped; it is restarted when it exits. */
export type Victim = { name: string; pid: () => number | undefined };

/** A running platform, as clients, faults and checks see it. */
export type Platform = {
  dir: string;
  deployerDir: string;
  logs: string;
  origin: string;
  baseUrl: string;
  token: string;
  natsUrl: string;
  adminUrl: string;
  /** Where the simulator of Stripe answers. */
  stripeUrl: string;
  victims: Victim[];
  proxies: Map<string, TcpProxy>;
  restarts: Map<string, number>;
  /** Whether all programs answer, and events flow. */
  isReady: () => Promise<boolean>;
  stop: () => Promise<void>;
};

/** Returns the function that asks the programs at these ports whether they are ready. */
export const readinessOf = (ports: Record<string, number>) => async (): Promise<boolean> => {
  const answers = programs.map(({ name }) =>
    httpGet(`http://127.0.0.1:${ports[name]}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
  return (await Promise.all(answers)).every(Boolean);
};
