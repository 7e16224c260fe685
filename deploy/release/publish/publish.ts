import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { recipes } from "../settings.ts";
import { type Pushed, pushChart, pushLayout } from "./push.ts";
import { type Credentials, openRegistry, parseRegistry } from "./registry.ts";

/** Pushes the images and the chart of a release. `chart` is the chart's metadata. */
export async function publish(
  folder: string,
  to: string,
  chart: { version: string } & object,
  credentials: Credentials,
): Promise<Pushed[]> {
  const { host, path } = parseRegistry(to);
  const registry = openRegistry(host, credentials);
  const below = (name: string) => (path === "" ? name : `${path}/${name}`);
  const pushed: Pushed[] = [];
  for (const { name } of recipes)
    pushed.push(await pushLayout(registry, join(folder, "images", name), below(name), chart.version));
  // The chart comes last: whoever can see it can also pull what it names.
  const file = join(folder, "charts", `berth-${chart.version}.tgz`);
  pushed.push(await pushChart(registry, file, below("charts/berth"), chart));
  return pushed;
}

/** Returns the login of REGISTRY_USER and REGISTRY_PASSWORD, or else docker's configuration. */
export async function readCredentials(env: NodeJS.ProcessEnv): Promise<Credentials> {
  const { REGISTRY_USER: user, REGISTRY_PASSWORD: password, DOCKER_CONFIG } = env;
  if ((user === undefined) !== (password === undefined))
    throw new Error("Set both REGISTRY_USER and REGISTRY_PASSWORD, or neither.");
  if (user !== undefined) return { user, password };
  const file = join(DOCKER_CONFIG ?? join(homedir(), ".docker"), "config.json");
  const config = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" && DOCKER_CONFIG === undefined) return undefined;
    throw error;
  });
  if (config === undefined) return {};
  try {
    JSON.parse(config);
  } catch {
    throw new Error(`${file} is not JSON.`);
  }
  return { config };
}
