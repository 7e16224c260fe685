/** The user of an image that names none, or names root. */
const DEFAULT_USER = "1000:1000";

/** Whether the user of an image is a name, which the image's /etc/passwd maps to a number. */
export function isNamed(user: string): boolean {
  const [name = ""] = user.split(":");
  return name !== "" && name !== "root" && !/^\d+$/.test(name);
}

/**
 * Returns the user that an image runs as on a cluster: a number, and not root's. `user` is the image's configuration,
 * `passwd` the content of its /etc/passwd.
 */
export function nonRootUser(user: string, passwd: string): string {
  const [name = "", group] = user.split(":");
  if (/^\d+$/.test(name) && Number(name) !== 0) return user;
  const entry = isNamed(user) && passwd.split("\n").find((line) => line.startsWith(`${name}:`));
  const [, , uid, gid] = (entry || "").split(":");
  if (!uid || !/^\d+$/.test(uid) || Number(uid) === 0) return DEFAULT_USER;
  return `${uid}:${group !== undefined && /^\d+$/.test(group) ? group : (gid ?? uid)}`;
}
