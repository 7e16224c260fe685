import type { V1IngressSpec } from "@kubernetes/client-node";
import type { HTTPRouteSpec } from "../../../kube/kinds.ts";
import type { AppOptions, DoorOptions, HttpRouteOptions, IngressOptions } from "../options.ts";

/** What an object for requests from outside has of its own. */
export type Door<Spec> = { annotations: Record<string, string>; spec: Spec };

/** The objects by which a web service is reached from outside. */
export type Doors = { ingress?: Door<V1IngressSpec>; httpRoute?: Door<HTTPRouteSpec> };

/** The Service that requests go to. */
export type Target = { name: string; port: string; portNumber: number };

/** Returns the objects by which requests for a host reach a Service; pure. */
export function doorsOf(
  target: Target,
  host: string,
  { ingress, httpRoute, scheme }: DoorOptions & Pick<AppOptions, "scheme">,
): Doors {
  return {
    ...(ingress.enabled && { ingress: ingressOf(target, host, ingress, scheme === "https") }),
    ...(httpRoute?.enabled && { httpRoute: httpRouteOf(target, host, httpRoute) }),
  };
}

/** Returns the host name of a service by its recorded objects; undefined when it has none. */
export function hostOf({ ingress, httpRoute }: Doors): string | undefined {
  return ingress?.spec.rules?.[0]?.host ?? httpRoute?.spec.hostnames[0];
}

/** Returns whether a service is to be reached by other kinds of objects than those that are recorded; pure. */
export function hasOtherDoors(recorded: Doors, { ingress, httpRoute }: DoorOptions): boolean {
  if (hostOf(recorded) === undefined) return false; // a worker
  const { ingress: hasIngress, httpRoute: hasRoute } = recorded;
  return ingress.enabled !== Boolean(hasIngress) || (httpRoute?.enabled ?? false) !== Boolean(hasRoute);
}

function ingressOf({ name, port }: Target, host: string, options: IngressOptions, secure: boolean) {
  const { className, annotations, tlsSecret } = options;
  const backend = { service: { name, port: { name: port } } };
  const secret = tlsSecret?.replaceAll("{service}", name);
  return {
    annotations,
    spec: {
      ...(className && { ingressClassName: className }),
      rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
      ...(secure && { tls: [{ hosts: [host], ...(secret && { secretName: secret }) }] }),
    },
  };
}

function httpRouteOf({ name, portNumber }: Target, host: string, options: HttpRouteOptions) {
  const { parentRefs, annotations, timeouts } = options;
  const backendRefs = [{ name, port: portNumber }];
  const hasTimeouts = Object.keys(timeouts).length > 0;
  const rules = [{ backendRefs, ...(hasTimeouts && { timeouts }) }];
  return { annotations, spec: { parentRefs, hostnames: [host], rules } };
}
