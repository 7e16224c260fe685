import type { Door } from "./door.ts";

/** Creates a project with one environment and services, so that tests do not see each other's names. */
export async function freshProject(
  door: Door,
  services: { name: string; type: string }[] = [{ name: "web", type: "web" }],
) {
  const made = await door.environment();
  for (const service of services) await door.must("POST", `${made.E}/services`, service);
  return { ...made, web: made.S("web") };
}
