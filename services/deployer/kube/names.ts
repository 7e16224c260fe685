/** Names and labels by which everything that Berth makes in a cluster is found again. */

const DOMAIN = "berth.dev";

export type Owner = {
  accountId?: string;
  projectId?: string;
  environmentId?: string;
  serviceId?: string;
  version?: number;
  revision?: number;
  /** What the object is for, where one service has several: `app`, `addon`, `build`. */
  kind?: string;
};

/** The one label that says an object is Berth's; the chart's admission policy looks at it on namespaces. */
export const managed = { "app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/part-of": "berth" };

export const label = (name: keyof Owner | "account" | "project" | "environment" | "service") =>
  `${DOMAIN}/${name.replace(/Id$/, "")}`;

/** The labels of an object that belongs to `owner`. */
export function labelsOf(owner: Owner): Record<string, string> {
  const own = Object.entries(owner).filter(([, value]) => value !== undefined);
  return {
    ...managed,
    ...Object.fromEntries(own.map(([key, value]) => [label(key as keyof Owner), String(value)])),
  };
}

export const annotation = (name: string) => `${DOMAIN}/${name}`;

/** A selector for objects that carry all of these labels. */
export function selector(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

/** An id as part of an object's name: `env_01m7` becomes `env-01m7`. */
export function nameOf(id: string): string {
  return id.toLowerCase().replaceAll("_", "-");
}

/** The namespace of an environment. */
export function namespaceOf(prefix: string, environmentId: string): string {
  return `${prefix}-${nameOf(environmentId)}`;
}
