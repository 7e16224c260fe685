/** What a name has at most, less the longest label and its dot (RFC 1035 section 2.3.4). */
const MAX_LENGTH = 253 - 64;

/** Returns whether apps may have names below this one: a host name in lower case, of two labels or more. */
export function isAppsDomain(name: string): boolean {
  const labels = name.split(".");
  const valid = labels.every((label) => /^[a-z0-9-]{1,63}$/.test(label) && !/^-|-$/.test(label));
  return valid && labels.length > 1 && name.length <= MAX_LENGTH && !/^\d+$/.test(labels.at(-1)!);
}
