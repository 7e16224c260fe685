/** Where something is. A longer address does where a shorter one is asked for. */
export type AccountAddress = { accountId: string };
export type ProjectAddress = AccountAddress & { projectId: string };
export type EnvironmentAddress = ProjectAddress & { environmentId: string };
/** `service` is the name of a service, or its id. */
export type ServiceAddress = EnvironmentAddress & { service: string };

const PARTS = [
  ["accountId", "accounts"],
  ["projectId", "projects"],
  ["environmentId", "environments"],
  ["service", "services"],
] as const;

/** Returns the path to an address, of as many parts as it has between `least` and `most`. */
export function pathTo(at: AccountAddress & Partial<ServiceAddress>, least: number, most = least): string {
  let path = "";
  for (const [index, [name, folder]] of PARTS.entries()) {
    const value = at[name];
    if (index >= most || (index >= least && value === undefined)) break;
    if (value === undefined) throw new TypeError(`The address has no ${name}.`);
    path += `/${folder}/${part(value)}`;
  }
  return path;
}

/** Returns a value as one part of a path. An empty one, or dots, would make it another path. */
export function part(value: string | number): string {
  const text = String(value);
  if (text === "" || text === "." || text === "..")
    throw new TypeError(`${JSON.stringify(text)} cannot be part of an address.`);
  return encodeURIComponent(text);
}
