import { type LookupAddress, type lookup, promises } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

/** Networks that are somebody's own, or no host's: RFC 6890 and its registry. */
const special = blockList(
  ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"],
  // The platform of Azure, which answers its machines.
  ...["168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12"],
  ...["192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"],
  ...["198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
  ...["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"],
);
const internet6 = blockList("2000::/3");

function blockList(...networks: string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address, prefix] = network.split("/");
    list.addSubnet(address!, Number(prefix), address!.includes(":") ? "ipv6" : "ipv4");
  }
  return list;
}

/** Whether an address is one of the public internet, and of no network that is somebody's own. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !special.check(address, "ipv4");
  return family === 6 && internet6.check(address, "ipv6") && !special.check(address, "ipv6");
}

/** A name leads to none of the allowed addresses. */
export class NoAllowedAddress extends Error {
  override readonly name = "NoAllowedAddress";
}

/** As `dns.lookup`, without the addresses that are not allowed. Requests that get it ask it for each connection. */
export function lookupAllowed(
  isAllowed: (address: string) => boolean = isPublicAddress,
  resolve: typeof lookup = lookupByNetwork,
): LookupFunction {
  return (hostname, asked, done) => {
    resolve(hostname, { ...asked, all: true }, (error, addresses: LookupAddress[]) => {
      if (error) return done(error, []);
      const allowed = addresses.filter(({ address }) => isAllowed(address));
      const [first] = allowed;
      if (!first) return done(new NoAllowedAddress("The name leads to no public address"), []);
      return asked.all ? done(null, allowed) : done(null, first.address, first.family);
    });
  };
}

const DNS_MS = 5_000;

/**
 * As `dns.lookup`, by questions over the network alone: that function has few threads in the process, which servers of
 * names that never answer would hold. So others could not connect meanwhile, to the database for one.
 */
export const lookupByNetwork = ((
  name: string,
  _options: object,
  done: (error: NodeJS.ErrnoException | null, addresses: object[]) => void,
) => {
  const resolver = new promises.Resolver({ timeout: DNS_MS, tries: 2 });
  void Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]).then(([four, six]) => {
    const found = [
      ...(four.status === "fulfilled" ? four.value.map((address) => ({ address, family: 4 })) : []),
      ...(six.status === "fulfilled" ? six.value.map((address) => ({ address, family: 6 })) : []),
    ];
    if (found.length > 0 || four.status === "fulfilled") return done(null, found);
    return done(four.reason, []);
  });
}) as unknown as typeof lookup;
