/** Names and labels of everything that Berth creates in a cluster. */

const DOMAIN = "berth.dev";

export type Owner = {
  accountId?: string;
  projectId?: string;
  environmentId?: string;
  serviceId?: string;
  version?: number;
  revision?: number;
  /**
   * What the object serves: `app`, `addon`, `pooler` (of an addon's connections), `copy` (of its data), `moment` (of its past),
   * `build` or `host`.
   */
  kind?: string;
};

/** Mark an object as Berth's; the chart's admission policy reads them on namespaces. */
export const managed = { "app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/part-of": "berth" };

export const label = (
  name:
    | keyof Owner
    | "account"
    | "project"
    | "environment"
    | "service"
    | "run"
    | "copy"
    | "pooler"
    | "proof"
    | "moment"
    | "access"
    | "metrics",
) => `${DOMAIN}/${name.replace(/Id$/, "")}`;

/** Returns the labels of an object that belongs to `owner`. */
export function labelsOf(owner: Owner): Record<string, string> {
  const own = Object.entries(owner).filter(([, value]) => value !== undefined);
  return {
    ...managed,
    ...Object.fromEntries(own.map(([key, value]) => [label(key as keyof Owner), String(value)])),
  };
}

export const annotation = (name: string) => `${DOMAIN}/${name}`;

/** Distinguishes the namespaces of an installation from those of another with the same prefix. */
export const INSTALLATION = annotation("installation");

/** Returns the selector of objects that have all of these labels. */
export function selector(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

/** Returns an id as part of an object's name: `env_01m7` becomes `env-01m7`. */
export function nameOf(id: string): string {
  return id.toLowerCase().replaceAll("_", "-");
}

/** Returns the name of an environment's namespace. */
export function namespaceOf(prefix: string, environmentId: string): string {
  return `${prefix}-${nameOf(environmentId)}`;
}
