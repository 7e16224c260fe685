/** Who runs what says no more than that it is not root. */
const NOBODY_ELSE = "1000:1000";

/** Whether the user of an image is a name, which the image's own file of users translates. */
export function isNamed(user: string): boolean {
  const [name = ""] = user.split(":");
  return name !== "" && name !== "root" && !/^\d+$/.test(name);
}

/**
 * The user that an image runs as on a cluster: a number that is not root's. `user` is what the image says,
 * `users` the content of its /etc/passwd.
 */
export function nonRootUser(user: string, users: string): string {
  const [name = "", group] = user.split(":");
  if (/^\d+$/.test(name) && Number(name) !== 0) return user;
  const entry = isNamed(user) && users.split("\n").find((line) => line.startsWith(`${name}:`));
  const [, , uid, gid] = (entry || "").split(":");
  if (!uid || !/^\d+$/.test(uid) || Number(uid) === 0) return NOBODY_ELSE;
  return `${uid}:${group !== undefined && /^\d+$/.test(group) ? group : (gid ?? uid)}`;
}
