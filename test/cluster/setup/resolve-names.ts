import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";
import { testDomain } from "./domain.ts";

const lookup = dns.lookup;

/** Makes this process resolve the names of the test domain, which no name server knows, to an address. */
export function resolveTo(address: string): void {
  dns.lookup = ((name: string, options: dns.LookupOptions, callback: (...answer: unknown[]) => void) => {
    if (typeof options === "function" || !`.${name}`.endsWith(`.${testDomain}`))
      return lookup(name, options, callback as never);
    if (options.all) callback(null, [{ address, family: 4 }]);
    else callback(null, address, 4);
  }) as typeof dns.lookup;
  syncBuiltinESMExports();
}
