import { BlockList, isIP } from "node:net";
import { type ImageReference, parseImageReference } from "../../../images/image-reference.ts";
import { REPOSITORIES, type RegistryTarget } from "../job-request.ts";

/** Whether a reference lies in a repository that builds push to, by any name of its registry. */
export function builtImages({ push, pull }: Pick<RegistryTarget, "push" | "pull">) {
  const own = new Set(
    [push, pull].flatMap((place) => REPOSITORIES.map((name) => placeOf(`${place}/${name}`))),
  );
  return (image: ImageReference): boolean => own.has(nameOf(image));
}

function placeOf(text: string): string {
  const found = parseImageReference(text);
  if ("problem" in found) throw new Error(`${text} is no place for images: ${found.problem}`);
  return nameOf(found);
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8);
loopback.addAddress("::1", "ipv6");

/**
 * One name for all that lead a node to the same repository: addresses have several forms, plain HTTP has its
 * own port, and this machine has many addresses.
 */
function nameOf({ registry, repository }: ImageReference): string {
  const url = URL.parse(`http://${registry}`);
  if (!url) return `${registry}/${repository}`;
  const address = url.hostname.replace(/^\[|\]$/g, "");
  const family = isIP(address);
  const local = family !== 0 && loopback.check(address, family === 6 ? "ipv6" : "ipv4");
  return `${local ? "localhost" : address}:${url.port}/${repository}`;
}
