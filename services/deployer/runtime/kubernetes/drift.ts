/** Whether an object has all that was asked of it; the cluster fills in more. Lists must match in order. */
export function contains(live: unknown, wanted: unknown): boolean {
  if (wanted === undefined || wanted === null) return true;
  if (Array.isArray(wanted))
    return (
      Array.isArray(live) &&
      live.length === wanted.length &&
      wanted.every((one, index) => contains(live[index], one))
    );
  if (typeof wanted !== "object") return live === wanted;
  if (typeof live !== "object" || live === null) return false;
  const own = live as Record<string, unknown>;
  return Object.entries(wanted).every(([key, value]) => contains(own[key], value));
}
