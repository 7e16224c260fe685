import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import tls from "node:tls";
import { testDomain } from "./domain.ts";
import type { Installed } from "./install.ts";

const lookup = dns.lookup;

/**
 * Lets this process reach an installation: it resolves the names of the test domain, which no name server knows, and
 * trusts the installation's certificate.
 */
export function reach({ appsHost: address, certificate }: Installed["platform"]): void {
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), certificate]);
  dns.lookup = ((name: string, options: dns.LookupOptions, callback: (...answer: unknown[]) => void) => {
    if (typeof options === "function" || !`.${name}`.endsWith(`.${testDomain}`))
      return lookup(name, options, callback as never);
    if (options.all) callback(null, [{ address, family: 4 }]);
    else callback(null, address, 4);
  }) as typeof dns.lookup;
  syncBuiltinESMExports();
}
