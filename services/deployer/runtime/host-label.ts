import { createHash } from "node:crypto";
import type { Release } from "./port.ts";

const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Returns the host label of a service: `<service>-<environment>-<project>`. Two services may arrive at the same one
 * (`a-b` + `c` and `a` + `b-c`, or two accounts with the same names): the first to claim it keeps it, a later one gets
 * `-` and the first 8 hexadecimal digits of the SHA-256 of its id appended. So does a label that is no valid DNS label,
 * after being cut to fit.
 */
export function chooseLabel(
  names: Release["names"],
  serviceId: string,
  taken: (label: string) => boolean,
): string {
  const plain = `${names.service}-${names.environment}-${names.project}`;
  if (DNS_LABEL.test(plain) && !taken(plain)) return plain;
  const hash = createHash("sha256").update(serviceId).digest("hex");
  for (let digits = 8; ; digits += 8) {
    const label = `${plain.slice(0, 62 - digits).replace(/(?<!-)-+$/, "")}-${hash.slice(0, digits)}`;
    if (!taken(label)) return label;
  }
}
