import type { AddonType } from "../terms/services.ts";
import type { AddonAddress } from "./port.ts";

/** Returns the name of an addon's role and of its database. */
export function addonName(serviceId: string): string {
  return `addon_${serviceId.replace(/^svc_/, "")}`;
}

/** Returns the keys that an addon publishes (docs/addons.md#keys). */
export function addonKeys(
  type: AddonType,
  { host, port }: AddonAddress,
  serviceId: string,
  password: string,
) {
  const name = addonName(serviceId);
  const plain = {
    HOST: host,
    PORT: String(port),
    ...(type === "postgres" && { USER: name, DATABASE: name }),
  };
  const url =
    type === "postgres"
      ? `postgres://${name}:${password}@${host}:${port}/${name}`
      : `redis://:${password}@${host}:${port}`;
  const secret = { PASSWORD: password, URL: url };
  return [
    ...Object.entries(plain).map(([key, value]) => ({ key, value, sensitive: false })),
    ...Object.entries(secret).map(([key, value]) => ({ key, value, sensitive: true })),
  ];
}
