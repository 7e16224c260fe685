import { isStatus } from "../../../kube/client.ts";
import { Certificate, Secret } from "../../../kube/kinds.ts";
import type { HostStatus, ServedHost } from "../../port.ts";
import type { KubernetesRuntimeOptions } from "../options.ts";
import { certificateName, hostObjectName } from "./hosts.ts";

/** Reads how far the certificates of the hosts at which services answer are. */
export function createCertificateReader({ kube, ingress, hosts: options }: KubernetesRuntimeOptions) {
  async function statusOf(namespace: string, host: ServedHost, issued: Set<string>): Promise<HostStatus> {
    const name = certificateName(hostObjectName(host.host));
    if (issued.has(name)) return { ...host, certificate: "issued" };
    const message = await whyPending(namespace, name);
    return { ...host, certificate: "pending", ...(message && { message }) };
  }

  /** Returns why the last attempt to issue a certificate failed, as cert-manager says; undefined if none did. */
  async function whyPending(namespace: string, name: string): Promise<string | undefined> {
    const certificate = await kube.get(Certificate, name, namespace).catch((error) => {
      // The environment's role may be from before it had this right: it is bound anew with the next namespace.
      if (isStatus(error, 403)) return undefined;
      throw error;
    });
    const failed = certificate?.status?.conditions?.find(
      ({ type, status }) => type === "Issuing" && status === "False",
    );
    return failed?.message && `The certificate could not be issued, and is tried again: ${failed.message}`;
  }

  return async (namespace: string, hosts: ServedHost[]): Promise<HostStatus[]> => {
    if (!ingress.enabled || !options?.issuer) {
      const message = ingress.enabled
        ? "This installation issues no certificates for domains; its ingress answers with its own."
        : "The certificate is that of the installation's Gateway.";
      return hosts.map((host) => ({ ...host, certificate: "none", message }));
    }
    // Their metadata alone: nobody needs to see the keys.
    const secrets = hosts.length > 0 ? await kube.listMetadata(Secret, { namespace, labels: "" }) : [];
    const issued = new Set(secrets.map(({ name = "" }) => name));
    return Promise.all(hosts.map((host) => statusOf(namespace, host, issued)));
  };
}
