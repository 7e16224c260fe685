import { createHash } from "node:crypto";
import type { ServedHost } from "../../port.ts";
import type { AppOptions, DoorOptions, HostOptions } from "../options.ts";
import { type Door, type Doors, doorsOf, type Target } from "./doors.ts";

const PREFIX = "domain.";
const ISSUER = "cert-manager.io/cluster-issuer";

/** What decides which objects a host has. */
export type HostDoorOptions = DoorOptions & { apps: Pick<AppOptions, "scheme">; hosts?: HostOptions };

/** Returns the name of a host's objects. It has a dot, which no service's has. */
export function hostObjectName(host: string): string {
  return PREFIX + createHash("sha256").update(host).digest("hex").slice(0, 32);
}

/** Returns whether an object is one of a host, by its name. */
export function isHostObject(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Returns the name of the Secret with the certificate for a host, by the name of its objects. */
export function certificateName(objectName: string): string {
  return `${objectName}.tls`;
}

/** Returns the objects by which requests for hosts reach a Service, or are redirected, by name; pure. */
export function hostDoorsOf(
  target: Target,
  hosts: readonly ServedHost[],
  options: HostDoorOptions,
): Map<string, Doors> {
  return new Map(hosts.map((host) => [hostObjectName(host.host), doorsOfHost(target, host, options)]));
}

function doorsOfHost(target: Target, { host, redirectTo }: ServedHost, options: HostDoorOptions): Doors {
  const { apps, hosts = { redirectAnnotations: {} } } = options;
  const { ingress, httpRoute } = doorsOf(target, host, { ...options, scheme: apps.scheme });
  return {
    ...(ingress && { ingress: toHostIngress(ingress, host, redirectTo, hosts) }),
    ...(httpRoute && { httpRoute: redirectTo ? toRedirect(httpRoute, redirectTo) : httpRoute }),
  };
}

/** The certificate of a host is its own: those for the addresses of apps are not for it. */
function toHostIngress(
  { annotations, spec }: NonNullable<Doors["ingress"]>,
  host: string,
  redirectTo: string | undefined,
  { issuer, redirectAnnotations }: HostOptions,
): NonNullable<Doors["ingress"]> {
  const { tls: _, ...rest } = spec;
  const others = Object.entries(annotations).filter(([name]) => !name.startsWith("cert-manager.io/"));
  const redirects = Object.entries(redirectTo ? redirectAnnotations : {}).map(([name, value]) => [
    name,
    value.replaceAll("{target}", redirectTo ?? ""),
  ]);
  const secretName = certificateName(hostObjectName(host));
  return {
    annotations: Object.fromEntries([...others, ...redirects, ...(issuer ? [[ISSUER, issuer]] : [])]),
    spec: { ...rest, ...(issuer && { tls: [{ hosts: [host], secretName }] }) },
  };
}

/** The Gateway API knows no 308 in its standard; 301 is what every implementation has. */
function toRedirect(
  { annotations, spec }: NonNullable<Doors["httpRoute"]>,
  hostname: string,
): Door<NonNullable<Doors["httpRoute"]>["spec"]> {
  const filter = { type: "RequestRedirect" as const, requestRedirect: { hostname, statusCode: 301 } };
  return { annotations, spec: { ...spec, rules: [{ filters: [filter] }] } };
}
