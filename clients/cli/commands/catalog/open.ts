import { command } from "../../command.ts";
import { refused } from "../../failure.ts";
import { hasBrowser, isPage, openBrowser } from "../../session/browser.ts";

const open = command({
  name: "open",
  summary: "Open a service in the browser",
  args: "[SERVICE]",
  arity: [0, 1],
  about: ["Prints the address as well. Where there is no browser, it only prints it."],
  examples: [["open web", "open the address of web"]],
  async run({ args: [service] }, ctx) {
    const { io, signal } = ctx;
    const at = await ctx.at.service(service);
    const { url, type } = await (await ctx.berth()).services.get(at, { signal });
    if (!url)
      throw refused(
        type === "web"
          ? `${at.service} has no address yet.`
          : `${at.service} is a ${type}, which has no address.`,
        "berth status",
      );
    if (io.json) io.outJson({ url });
    else io.out(url);
    if (isPage(url) && !io.json && hasBrowser()) openBrowser(url);
  },
});

export const commands = [open];
