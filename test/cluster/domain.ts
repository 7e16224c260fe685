import dns from "node:dns";
import { syncBuiltinESMExports } from "node:module";

/** Of the platform's and the apps' names in tests. */
export const testDomain = "berth.test";

/** From now on names of that domain lead to this address in this process: nobody's name server knows them. */
export function leadNamesTo(address: string): void {
  const lookup = dns.lookup;
  dns.lookup = ((name: string, options: dns.LookupOptions, callback: (...answer: unknown[]) => void) => {
    if (typeof options === "function" || !`.${name}`.endsWith(`.${testDomain}`))
      return lookup(name, options, callback as never);
    if (options.all) callback(null, [{ address, family: 4 }]);
    else callback(null, address, 4);
  }) as typeof dns.lookup;
  syncBuiltinESMExports();
}
