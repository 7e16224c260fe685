/** Where addons of type postgres live, as apps reach it. */
export type AddonServer = { host: string; port: number };

/** Role and database of an addon have one name, made from the service's id. */
export function addonName(serviceId: string): string {
  return `addon_${serviceId.replace(/^svc_/, "")}`;
}

/** Where an administrator's URL leads. */
export function addonServer(adminUrl: string): AddonServer {
  const { hostname, port } = new URL(adminUrl);
  return { host: hostname, port: port === "" ? 5432 : Number(port) };
}

/** What a redis addon publishes (decisions.md 2); its server is on this machine. */
export function redisKeys(port: number, password: string) {
  const host = "127.0.0.1";
  return [
    { key: "HOST", value: host, sensitive: false },
    { key: "PORT", value: String(port), sensitive: false },
    { key: "PASSWORD", value: password, sensitive: true },
    { key: "URL", value: `redis://:${password}@${host}:${port}`, sensitive: true },
  ];
}

/** What a postgres addon publishes (decisions.md 2). */
export function addonKeys(server: AddonServer, serviceId: string, password: string) {
  const name = addonName(serviceId);
  const url = `postgres://${name}:${password}@${server.host}:${server.port}/${name}`;
  const plain = { HOST: server.host, PORT: String(server.port), USER: name, DATABASE: name };
  const secret = { PASSWORD: password, URL: url };
  return [
    ...Object.entries(plain).map(([key, value]) => ({ key, value, sensitive: false })),
    ...Object.entries(secret).map(([key, value]) => ({ key, value, sensitive: true })),
  ];
}
