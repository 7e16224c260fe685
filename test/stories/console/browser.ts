import type { BrowserContextOptions, Page } from "playwright-core";
import { complaintsOf } from "../../support/browser.ts";
import type { World } from "../../support/world.ts";
import { OWNER, type Stage, signIn } from "../pages/chromium.ts";

type User = { email: string; password: string };

/** The path of the console's screen for a path of the API. */
export const screen = (path: string) => `/console${path}`;

/**
 * Opens a screen of the console as a user, who signs in on the way. `complaints` are the page's: of its policy, of scripts,
 * of failed requests, of other hosts.
 */
export async function openConsole(
  { browser, world }: Pick<Stage, "browser"> & { world: Pick<World, "origin"> },
  path = "/",
  {
    user = OWNER,
    origin = world.origin,
    ...options
  }: BrowserContextOptions & { user?: User; origin?: string } = {},
): Promise<{ page: Page; complaints: string[] }> {
  const page = await (await browser.newContext(options)).newPage();
  const complaints = complaintsOf(page, origin);
  await page.goto(origin + path);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  // That nobody was signed in yet is said by a 401, of which browsers complain.
  await signIn(page, user);
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  complaints.length = 0;
  return { page, complaints };
}

/** A service whose image exists nowhere: on one machine its deployments fail, and say why. */
export async function serviceOf(world: World, E: string, name: string, more: object = {}) {
  return world.must<{ id: string }>("POST", `${E}/services`, { name, type: "web", ...more });
}
