import type { AddonType } from "../terms/services.ts";
import type { AddonAddress } from "./port.ts";

/** Returns the name of an addon's role and of its database. */
export function addonName(serviceId: string): string {
  return `addon_${serviceId.replace(/^svc_/, "")}`;
}

/** Returns the keys that an addon publishes (docs/addons.md#keys). Through its `pooler` leads the one that is meant for that. */
export function addonKeys(
  type: AddonType,
  { host, port }: AddonAddress,
  serviceId: string,
  password: string,
  pooler: AddonAddress = { host, port },
) {
  const name = addonName(serviceId);
  const plain = {
    HOST: host,
    PORT: String(port),
    ...(type === "postgres" && { USER: name, DATABASE: name }),
  };
  const urlOf = (at: AddonAddress) =>
    type === "postgres"
      ? `postgres://${name}:${password}@${at.host}:${at.port}/${name}`
      : `redis://:${password}@${at.host}:${at.port}`;
  const secret = {
    PASSWORD: password,
    URL: urlOf({ host, port }),
    ...(type === "postgres" && { POOLED_URL: urlOf(pooler) }),
  };
  return [
    ...Object.entries(plain).map(([key, value]) => ({ key, value, sensitive: false })),
    ...Object.entries(secret).map(([key, value]) => ({ key, value, sensitive: true })),
  ];
}
