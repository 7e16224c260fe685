import { spawn } from "node:child_process";

type Env = Record<string, string | undefined>;

/** Whether a browser can be opened on this machine. */
export function hasBrowser(env: Env = process.env, platform = process.platform): boolean {
  if (env.BROWSER) return env.BROWSER !== "none";
  if (env.SSH_CONNECTION || env.CI) return false;
  return platform !== "linux" || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY);
}

/** Whether a browser may be given this: a server names its addresses itself, and systems run programs by others. */
export const isPage = (url: string) => /^https?:\/\//.test(url);

/** Opens a URL in the user's browser. Whether it does is the browser's: the URL is printed as well. */
export function openBrowser(url: string, env: Env = process.env, platform = process.platform): void {
  const standard = { darwin: ["open"], win32: ["rundll32", "url.dll,FileProtocolHandler"] }[
    platform as string
  ];
  const [program, ...args] = env.BROWSER ? [env.BROWSER] : (standard ?? ["xdg-open"]);
  try {
    const child = spawn(program!, [...args, url], { stdio: "ignore", detached: true });
    child.on("error", () => {});
    child.unref();
  } catch {}
}
